//! Rank 0's iteration lines, read for the progress bar.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

/// With the trainer's figures this fits on 80 columns up to thousands of iterations.
const TEMPLATE: &str = "{bar:6} {pos}/{len} {eta} {wide_msg}";

/// `iteration 12/80 | loss 3.1234 | ...`
#[derive(Debug, PartialEq)]
pub(crate) struct Iteration<'a> {
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// What follows the first bar, which is the figures.
    pub(crate) figures: &'a str,
}

impl<'a> Iteration<'a> {
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let (head, figures) = line.trim_end().split_once('|').unwrap_or((line.trim_end(), ""));
        let (done, total) = head.strip_prefix("iteration ")?.split_once('/')?;
        Some(Self { done: done.trim().parse().ok()?, total: total.trim().parse().ok()?, figures: figures.trim() })
    }
}

/// The bar, there from the first iteration until the last.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Option<ProgressBar>>);

impl Progress {
    /// True when that was the last one: the bar is gone, and the iteration is to be written as a line.
    pub(crate) fn advance(&self, iteration: &Iteration<'_>) -> bool {
        if iteration.done >= iteration.total {
            self.clear();
            return true;
        }
        let bar = self.lock().get_or_insert_with(|| bar(iteration.total)).clone();
        bar.set_length(iteration.total);
        bar.set_position(iteration.done);
        bar.set_message(iteration.figures.replace(" | ", ", "));
        false
    }

    /// Writes while the bar is out of the way.
    pub(crate) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        // The lock is not held: drawing and writing may take as long as the reader likes.
        let bar = self.lock().clone();
        match bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    pub(crate) fn clear(&self) {
        let bar = self.lock().take();
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(TEMPLATE);
    ProgressBar::new(total).with_style(style.expect("the template is a constant"))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    #[test]
    fn iteration_lines_are_told_from_others() {
        assert_eq!(
            Iteration::parse("iteration 12/80 | loss 3.1234 | grad norm 0.5\n"),
            Some(Iteration { done: 12, total: 80, figures: "loss 3.1234 | grad norm 0.5" })
        );
        assert_eq!(Iteration::parse("iteration  1/9"), Some(Iteration { done: 1, total: 9, figures: "" }));
        for other in ["", "iteration", "iteration x/9 | loss 1", "iterations 5/9", "stage 1/2 | layers 3"] {
            assert_eq!(Iteration::parse(other), None, "{other}");
        }
    }

    /// A terminal of 80 columns that keeps all that was written since its line was last cleared.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_figures_fit_on_80_columns_and_nothing_is_left_at_the_end() {
        let screen = Screen::default();
        let progress = Progress::default();
        let drawn = bar(1000);
        drawn.set_draw_target(ProgressDrawTarget::term_like(Box::new(screen.clone())));
        *progress.lock() = Some(drawn);
        let line = |done| format!("iteration {done}/1000 | loss 3.1234 | grad norm 1.23 | lr 1.0e-3 | 12345 tokens/s");
        assert!(!progress.advance(&Iteration::parse(&line(999)).unwrap()));
        let bar = progress.lock().clone().unwrap();
        bar.force_draw();
        let shown = screen.0.lock().unwrap().clone();
        assert!(shown.contains("999/1000") && shown.contains("lr 1.0e-3, 12345 tokens/s"), "{shown:?}");
        assert!(progress.advance(&Iteration::parse(&line(1000)).unwrap()));
        assert_eq!(screen.0.lock().unwrap().trim(), "");
        assert!(bar.is_finished() && progress.lock().is_none());
    }
}
