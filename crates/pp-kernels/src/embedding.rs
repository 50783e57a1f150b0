//! Token plus learned position embedding, as in GPT-2.

use rayon::prelude::*;

use crate::par::{self, check_len};
use crate::real::Real;
use crate::simd::vectorized;

/// `y[t] = wte[tokens[t]] + wpe[t % seq]`.
///
/// `tokens` `[batch * seq]`, `wte` `[vocab, h]`, `wpe` `[>= seq, h]`, `y` `[batch * seq, h]`,
/// overwritten.
///
/// # Panics
/// When a length does not match, or a token lies beyond `wte`.
pub fn forward<T: Real>(tokens: &[u32], wte: &[T], wpe: &[T], y: &mut [T], seq: usize, h: usize) {
    check(tokens, wte.len(), wpe.len(), y.len(), seq, h);
    if h == 0 {
        return;
    }
    let one_row = |(t, y): (usize, &mut [T])| {
        let token = &wte[tokens[t] as usize * h..][..h];
        let position = &wpe[(t % seq) * h..][..h];
        for ((y, &token), &position) in y.iter_mut().zip(token).zip(position) {
            *y = token + position;
        }
    };
    if par::pays(y.len()) {
        let rows = par::rows_per_task(h);
        y.par_chunks_exact_mut(h).with_min_len(rows).enumerate().for_each(one_row);
    } else {
        y.chunks_exact_mut(h).enumerate().for_each(one_row);
    }
}

/// `dwte[tokens[t]] += dy[t]` and `dwpe[t % seq] += dy[t]`, in the order of `t`.
///
/// Shapes as in [`forward`]. One thread does it: rows of `dwte` repeat, and the order of additions
/// is the result.
///
/// # Panics
/// When a length does not match, or a token lies beyond `dwte`.
pub fn backward<T: Real>(tokens: &[u32], dy: &[T], dwte: &mut [T], dwpe: &mut [T], seq: usize, h: usize) {
    check(tokens, dwte.len(), dwpe.len(), dy.len(), seq, h);
    if h > 0 {
        scatter(tokens, dy, dwte, dwpe, seq, h);
    }
}

vectorized! {
    fn scatter<'a, T: Real>[_](
        tokens: &'a [u32], dy: &'a [T], dwte: &'a mut [T], dwpe: &'a mut [T], seq: usize, h: usize,
    ) {
        for (t, (&token, dy)) in tokens.iter().zip(dy.chunks_exact(h)).enumerate() {
            for (sum, &dy) in dwte[token as usize * h..][..h].iter_mut().zip(dy) {
                *sum = *sum + dy;
            }
            for (sum, &dy) in dwpe[(t % seq) * h..][..h].iter_mut().zip(dy) {
                *sum = *sum + dy;
            }
        }
    }
}

/// Panics unless lengths match and every token has a row.
#[track_caller]
fn check(tokens: &[u32], wte: usize, wpe: usize, y: usize, seq: usize, h: usize) {
    check_len("y", y, tokens.len() * h, "[batch * seq, h]");
    if h == 0 {
        return;
    }
    let vocab = wte / h;
    assert!(wte == vocab * h, "wte has {wte} elements, not a multiple of h = {h}");
    assert!(wpe >= seq * h, "wpe has {wpe} elements, [>= {seq}, {h}] needs {}", seq * h);
    assert!(
        tokens.is_empty() || (seq > 0 && tokens.len().is_multiple_of(seq)),
        "{} tokens are not whole sequences of {seq}",
        tokens.len()
    );
    if let Some((t, token)) = tokens.iter().enumerate().find(|&(_, &token)| token as usize >= vocab) {
        panic!("token {token} at position {t} is beyond the vocabulary of {vocab}");
    }
}
