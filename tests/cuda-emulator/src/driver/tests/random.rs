//! Random programs, against plain reachability in the graph of all that orders their work.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::clock::Clock;

/// SplitMix64: seeded, so that a failure can be run again.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// Three points per piece: it begins (and reads), it has heard (and writes), it is done.
const BEGUN: usize = 0;
const HEARD: usize = 1;
const DONE: usize = 2;

/// The graph: who is directly before whom.
#[derive(Default)]
struct Graph(Vec<Vec<usize>>);

impl Graph {
    fn point(&mut self, before: &[usize]) -> usize {
        self.0.push(before.to_vec());
        self.0.len() - 1
    }

    fn all_before(&self, point: usize) -> Vec<bool> {
        let mut is_before = vec![false; self.0.len()];
        let mut open = vec![point];
        while let Some(at) = open.pop() {
            for &before in &self.0[at] {
                if !std::mem::replace(&mut is_before[before], true) {
                    open.push(before);
                }
            }
        }
        is_before
    }
}

/// A piece that was queued.
struct Queued {
    /// Its first point; the others follow.
    first: usize,
    accesses: Vec<Access>,
    /// If it hears: whether somebody tells it already.
    is_told: Option<bool>,
}

/// What the driver is thought to be doing.
#[derive(Default)]
struct Model {
    graph: Graph,
    pieces: Vec<Queued>,
    /// By stream: its last piece's end.
    lasts: BTreeMap<usize, usize>,
    /// What the host has learnt last.
    host: Vec<usize>,
    events: Vec<Option<usize>>,
}

/// Streams by number: the default one, two that are ordered with it, and three that are not.
const N_STREAMS: usize = 6;

impl Model {
    /// A piece on a stream, after more points besides.
    fn queue(&mut self, stream: usize, accesses: Vec<Access>, more: &[usize], is_told: Option<bool>) -> usize {
        let mut before = self.host.clone();
        before.extend(more);
        before.extend(self.lasts.get(&stream));
        match stream {
            0 => before.extend((1..3).filter_map(|other| self.lasts.get(&other))),
            1 | 2 => before.extend(self.lasts.get(&0)),
            _ => {}
        }
        let first = self.graph.point(&before);
        let heard = self.graph.point(&[first]);
        let done = self.graph.point(&[heard]);
        self.lasts.insert(stream, done);
        self.pieces.push(Queued { first, accesses, is_told });
        self.pieces.len() - 1
    }

    /// Whether the end of a piece is before a touch of another, which is as it begins or once it has heard.
    fn is_before(&self, earlier: usize, later: usize, kind: Kind) -> bool {
        let point = self.pieces[later].first + if kind == Kind::Read { BEGUN } else { HEARD };
        self.graph.all_before(point)[self.pieces[earlier].first + DONE]
    }

    /// By which of their touches two pieces race: those of the same bytes without an order, one of them writing.
    fn races(&self, one: usize, other: usize) -> Vec<(Kind, Kind)> {
        let conflict = |a: &Access, b: &Access| {
            let overlap = a.address < b.address + b.n_bytes as u64 && b.address < a.address + a.n_bytes as u64;
            let harmless = a.kind == Kind::Read && b.kind == Kind::Read;
            let ordered = || self.is_before(one, other, b.kind) || self.is_before(other, one, a.kind);
            overlap && !harmless && !ordered()
        };
        let pairs =
            self.pieces[one].accesses.iter().flat_map(|a| self.pieces[other].accesses.iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| conflict(a, b)).map(|(a, b)| (a.kind, b.kind)).collect()
    }

    /// Pieces that hear and whom nobody tells yet, among those before a point.
    fn untold(&self, points: &[usize]) -> Vec<usize> {
        let befores: Vec<_> = points.iter().map(|&point| (point, self.graph.all_before(point))).collect();
        let untold = |piece: &usize| {
            let Queued { first, is_told, .. } = &self.pieces[*piece];
            let end = first + DONE;
            *is_told == Some(false) && befores.iter().any(|(point, before)| *point == end || before[end])
        };
        (0..self.pieces.len()).filter(untold).collect()
    }

    /// Whether a message yet to come could order one piece before a touch of another.
    fn could_be_told(&self, earlier: usize, later: usize, kind: Kind) -> bool {
        let before_earlier = self.graph.all_before(self.pieces[earlier].first + DONE);
        let writes = kind == Kind::Write;
        let point = self.pieces[later].first + if writes { HEARD } else { BEGUN };
        let mut before_later = self.graph.all_before(point);
        before_later.resize(self.graph.0.len(), false);
        self.pieces.iter().enumerate().any(|(at, piece)| {
            let own = at == later && writes;
            piece.is_told == Some(false)
                && (own || before_later[piece.first + DONE])
                && !before_earlier[piece.first + HEARD]
        })
    }
}

/// Where pieces that tell leave their clocks, by the piece that hears.
type Post = Arc<Mutex<BTreeMap<usize, Clock>>>;

/// A program as it is written and run.
struct Program {
    rng: Rng,
    bench: Bench,
    model: Model,
    streams: Vec<usize>,
    events: Vec<usize>,
    buffers: Vec<u64>,
    post: Post,
}

impl Program {
    fn new(seed: u64) -> Self {
        let bench = Bench::new();
        let mut streams = vec![0];
        streams.extend((1..N_STREAMS).map(|i| create_stream(i < 3).unwrap()));
        let events: Vec<_> = (0..3).map(|_| create_event(false).unwrap()).collect();
        let buffers = (0..2).map(|_| bench.buffer(8)).collect();
        let model = Model { events: vec![None; events.len()], ..Model::default() };
        Self { rng: Rng(seed), bench, model, streams, events, buffers, post: Post::default() }
    }

    /// What a piece on a stream is to touch. Mostly what races with nothing by now, as the first race ends a program.
    fn accesses(&mut self, stream: usize) -> Vec<Access> {
        for _ in 0..6 {
            let accesses = self.any_accesses();
            let last = self.model.lasts.get(&stream).copied();
            let piece = self.model.queue(stream, accesses.clone(), &[], None);
            let is_racy = (0..piece).any(|earlier| !self.model.races(earlier, piece).is_empty());
            let queued = self.model.pieces.pop();
            self.model.graph.0.truncate(queued.map_or(0, |queued| queued.first));
            match last {
                Some(last) => self.model.lasts.insert(stream, last),
                None => self.model.lasts.remove(&stream),
            };
            if !is_racy || self.rng.below(15) == 0 {
                return accesses;
            }
        }
        Vec::new()
    }

    fn any_accesses(&mut self) -> Vec<Access> {
        let n = self.rng.below(3);
        let kinds: Vec<_> = (0..n).map(|_| if self.rng.below(3) == 0 { Kind::Write } else { Kind::Read }).collect();
        let mut accesses: Vec<Access> = Vec::new();
        for kind in kinds {
            let buffer = self.buffers[self.rng.below(2)];
            let start = self.rng.below(8);
            let n_bytes = 1 + self.rng.below(8 - start);
            accesses.push(access(buffer + start as u64, n_bytes, kind));
        }
        accesses
    }

    /// One more step. `Err` once the driver has reported something.
    fn step(&mut self) -> Result<(), Error> {
        let stream = self.rng.below(N_STREAMS);
        match self.rng.below(12) {
            0..4 => self.touch(stream),
            4 | 5 => self.record(stream),
            6 | 7 => self.wait(stream),
            8 => self.hear(stream),
            9 => self.tell_any(stream),
            10 => self.synchronize(stream),
            _ => Ok(()),
        }
    }

    fn touch(&mut self, stream: usize) -> Result<(), Error> {
        let accesses = self.accesses(stream);
        let piece = self.model.queue(stream, accesses.clone(), &[], None);
        touch(self.streams[stream], &format!("<{piece}>"), accesses)
    }

    fn record(&mut self, stream: usize) -> Result<(), Error> {
        let event = self.rng.below(self.events.len());
        self.model.queue(stream, Vec::new(), &[], None);
        self.model.events[event] = self.model.lasts.get(&stream).copied();
        record_event(self.events[event], self.streams[stream])
    }

    fn wait(&mut self, stream: usize) -> Result<(), Error> {
        let event = self.rng.below(self.events.len());
        let recorded: Vec<_> = self.model.events[event].into_iter().collect();
        self.model.queue(stream, Vec::new(), &recorded, None);
        wait_event(self.streams[stream], self.events[event])
    }

    fn hear(&mut self, stream: usize) -> Result<(), Error> {
        let accesses = self.accesses(stream);
        let piece = self.model.queue(stream, accesses.clone(), &[], Some(false));
        let post = Arc::clone(&self.post);
        let run: Run = Box::new(move |work| {
            while !work.is_cancelled() {
                if let Some(clock) = post.lock().unwrap().remove(&piece) {
                    work.join(&clock);
                    break;
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            Ok(())
        });
        enqueue(as_c(self.streams[stream]), format!("<{piece}>"), accesses, run)
    }

    /// Tells somebody who hears, if that makes no circle.
    fn tell_any(&mut self, stream: usize) -> Result<(), Error> {
        let untold: Vec<_> =
            (0..self.model.pieces.len()).filter(|&i| self.model.pieces[i].is_told == Some(false)).collect();
        if untold.is_empty() {
            return Ok(());
        }
        let hearer = untold[self.rng.below(untold.len())];
        self.tell(stream, hearer)
    }

    fn tell(&mut self, stream: usize, hearer: usize) -> Result<(), Error> {
        let accesses = self.accesses(stream);
        // Whether it may be is seen with it in place.
        let teller = self.model.queue(stream, accesses.clone(), &[], None);
        let first = self.model.pieces[teller].first;
        let is_after = self.model.graph.all_before(first)[self.model.pieces[hearer].first + HEARD];
        if !is_after {
            let heard = self.model.pieces[hearer].first + HEARD;
            self.model.graph.0[heard].push(first + DONE);
            self.model.pieces[hearer].is_told = Some(true);
        }
        let post = Arc::clone(&self.post);
        let run: Run = Box::new(move |work| {
            if !is_after {
                post.lock().unwrap().insert(hearer, work.clock());
            }
            Ok(())
        });
        queue::put(self.streams[stream], Order::new(&format!("<{teller}>"), accesses, run)).map(drop)
    }

    /// Waits on the host for a stream, if it will ever be done.
    fn synchronize(&mut self, stream: usize) -> Result<(), Error> {
        let mut points: Vec<_> = self.model.lasts.get(&stream).copied().into_iter().collect();
        if stream == 0 {
            points.extend((1..3).filter_map(|other| self.model.lasts.get(&other)));
        }
        if !self.model.untold(&points).is_empty() {
            return Ok(());
        }
        let mut before = self.model.host.clone();
        before.extend(points);
        let now = self.model.graph.point(&before);
        self.model.host = vec![now];
        synchronize_stream(self.streams[stream])
    }

    /// Everybody is told, on a stream of its own each, so that all ends.
    fn end(&mut self) -> Result<(), Error> {
        for hearer in 0..self.model.pieces.len() {
            if self.model.pieces[hearer].is_told == Some(false) {
                let stream = self.streams.len();
                self.streams.push(create_stream(false)?);
                self.tell_without_touching(stream, hearer)?;
            }
        }
        synchronize_context()
    }

    fn tell_without_touching(&mut self, stream: usize, hearer: usize) -> Result<(), Error> {
        let teller = self.model.queue(stream, Vec::new(), &[], None);
        let (first, heard) = (self.model.pieces[teller].first, self.model.pieces[hearer].first + HEARD);
        self.model.graph.0[heard].push(first + DONE);
        self.model.pieces[hearer].is_told = Some(true);
        let post = Arc::clone(&self.post);
        let run: Run = Box::new(move |work| {
            post.lock().unwrap().insert(hearer, work.clock());
            Ok(())
        });
        queue::put(self.streams[stream], Order::new(&format!("<{teller}>"), Vec::new(), run)).map(drop)
    }
}

/// The two pieces that a report names.
fn named(text: &str) -> Vec<usize> {
    let number = |part: &str| part.split_once('>').and_then(|(number, _)| number.parse().ok());
    text.split('<').skip(1).filter_map(number).collect()
}

/// Runs a random program; says whether it had a race, and whether that was known as it was queued.
fn run(seed: u64, n_steps: usize) -> (bool, bool) {
    let mut program = Program::new(seed);
    let queued = (0..n_steps).try_for_each(|_| program.step());
    let at_once = queued.is_err();
    let done = queued.and_then(|()| program.end());
    let model = &program.model;
    let Err(error) = done.and_then(|()| check(program.bench.context)) else {
        for later in 0..model.pieces.len() {
            for earlier in 0..later {
                assert_eq!(
                    model.races(earlier, later),
                    [],
                    "seed {seed}: {earlier} and {later} race, and were not reported"
                );
            }
        }
        return (false, false);
    };
    assert!(error.text.starts_with("race: "), "seed {seed}: {error}");
    let pair = named(&error.text);
    let &[earlier, later] = pair.as_slice() else { panic!("seed {seed}: {error}") };
    let last = model.pieces.len() - 1;
    let n_hearers = model.pieces.iter().filter(|piece| piece.is_told.is_some()).count();
    assert!(
        at_once || n_hearers > 0,
        "seed {seed}: no message could have ordered anything, so it was known at once\n{error}"
    );
    let races = model.races(earlier, later);
    assert!(!races.is_empty(), "seed {seed}: {earlier} and {later} of {last} do not race\n{error}");
    if at_once && later == last {
        let open = |&(a, b): &_| model.could_be_told(earlier, later, b) || model.could_be_told(later, earlier, a);
        assert!(!races.iter().all(open), "seed {seed}: a message might order {earlier} and {later}\n{error}");
    }
    (true, at_once)
}

#[test]
fn random_programs_are_reported_just_where_nothing_orders_their_work() {
    let (mut n_fine, mut n_at_once, mut n_later) = (0, 0, 0);
    for seed in 0..120 {
        match run(seed, 10 + (seed as usize % 4) * 15) {
            (false, _) => n_fine += 1,
            (true, true) => n_at_once += 1,
            (true, false) => n_later += 1,
        }
    }
    assert!(n_fine > 12 && n_at_once > 8 && n_later > 3, "{n_fine} fine, {n_at_once} at once, {n_later} later");
}
