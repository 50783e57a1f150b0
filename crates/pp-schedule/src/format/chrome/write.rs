//! Traces to text, an event at a time.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::header::{self, quoted};
use super::lanes::Lanes;
use super::messages::{self, Ends};
use super::{Extra, Step, Trace, ns_per_tick};
use crate::format::picture::wait;
use crate::ids::Rank;
use crate::simulate::{Flight, Level, StageBytes, levels};

/// The lane of messages.
const MESSAGES: &str = "messages sent";

/// The trace as text.
///
/// # Errors
/// See [`write()`].
pub fn to_string(trace: &Trace<'_>) -> io::Result<String> {
    let mut text = Vec::new();
    write(trace, &mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// Writes a trace. Nothing of it but a line at a time is kept in memory, so that `out` should be buffered.
///
/// # Errors
/// Those of `out`; [`io::ErrorKind::InvalidInput`] if there is no step, or steps are over different extents.
pub fn write(trace: &Trace<'_>, out: &mut dyn Write) -> io::Result<()> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let first =
        trace.steps.first().ok_or_else(|| invalid("a trace has at least one step, but none is given".into()))?;
    let extent = first.timeline.extent();
    if let Some(other) = trace.steps.iter().find(|step| step.timeline.extent() != extent) {
        let (one, other) = (first.number, other.number);
        return Err(invalid(format!(
            "steps {one} and {other} are over different extents: one trace is of one schedule"
        )));
    }
    let ns = ns_per_tick(&trace.scale);
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
    header::write(trace, extent, ns, out)?;
    out.write_all(b",\"traceEvents\":[\n")?;
    let mut events = Events { out, line: String::new(), is_first: true, ns, n_flows: 0 };
    events.ranks(extent.placement.n_ranks())?;
    let mut lanes = Lanes::default();
    for step in &trace.steps {
        for rank in 0..step.timeline.rows().len() {
            events.rank(trace, step, rank)?;
        }
        events.flights(step, &mut lanes)?;
    }
    events.extra(&trace.extra, &mut lanes)?;
    for (rank, tid, name) in lanes.names() {
        events.thread(rank, tid, &name)?;
    }
    out.write_all(b"\n]}\n")
}

struct Events<'a> {
    out: &'a mut dyn Write,
    line: String,
    is_first: bool,
    ns: u64,
    n_flows: u64,
}

impl Events<'_> {
    /// Writes the line, after a comma unless it is the first.
    fn emit(&mut self) -> io::Result<()> {
        if !self.is_first {
            self.out.write_all(b",\n")?;
        }
        self.is_first = false;
        self.out.write_all(self.line.as_bytes())?;
        self.line.clear();
        Ok(())
    }

    fn ranks(&mut self, n_ranks: u32) -> io::Result<()> {
        for rank in 0..n_ranks {
            // Writing to a string cannot fail.
            let _ = write!(
                self.line,
                "{{\"ph\":\"M\",\"pid\":{rank},\"name\":\"process_name\",\"args\":{{\"name\":\"rank {rank}\"}}}},\n\
                 {{\"ph\":\"M\",\"pid\":{rank},\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{rank}}}}}"
            );
            self.emit()?;
            self.thread(Rank(rank), 0, "compute")?;
        }
        Ok(())
    }

    fn thread(&mut self, rank: Rank, tid: u32, name: &str) -> io::Result<()> {
        let name = quoted(name)?;
        let _ = write!(
            self.line,
            "{{\"ph\":\"M\",\"pid\":{rank},\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}}}"
        );
        self.emit()
    }

    /// Pushes `"ts":..,"dur":..` for a time between ticks of the trace.
    fn times(&mut self, start: u64, end: u64) {
        let (start, end) = (self.nanoseconds(start), self.nanoseconds(end));
        let _ = write!(self.line, "\"ts\":{},\"dur\":{}", Micros(start), Micros(end.saturating_sub(start)));
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.ns)
    }

    /// A rank's computations, and what it keeps for its backwards.
    fn rank(&mut self, trace: &Trace<'_>, step: &Step<'_>, rank: usize) -> io::Result<()> {
        let (timeline, placement) = (step.timeline, step.timeline.extent().placement);
        let row = &timeline.rows()[rank];
        for (index, span) in row.iter().enumerate() {
            let work = span.work;
            let _ =
                write!(self.line, "{{\"name\":\"{work}\",\"cat\":\"compute\",\"ph\":\"X\",\"pid\":{rank},\"tid\":0,");
            self.times(step.start.saturating_add(span.start), step.start.saturating_add(span.end));
            let _ = write!(
                self.line,
                ",\"args\":{{\"step\":{},\"stage\":{},\"chunk\":{},\"microbatch\":{},\"kind\":\"{}\"",
                step.number,
                work.stage,
                placement.chunk_of(work.stage),
                work.microbatch,
                work.kind.name(),
            );
            if let Some((rank, work)) = wait::before(timeline, rank, index).and_then(|wait| wait.waited_for) {
                let _ = write!(self.line, ",\"waited_for\":\"{work} on rank {rank}\"");
            }
            self.line.push_str("}}");
            self.emit()?;
        }
        if trace.counters {
            for level in levels(row, timeline.extent().forward_only, |_| StageBytes::default()) {
                self.counter(rank, step.start, level)?;
            }
        }
        Ok(())
    }

    fn counter(&mut self, rank: usize, start: u64, level: Level) -> io::Result<()> {
        let Level { time, in_flight, deferred, .. } = level;
        let ts = Micros(self.nanoseconds(start.saturating_add(time)));
        let _ = write!(
            self.line,
            "{{\"name\":\"saved for backwards\",\"ph\":\"C\",\"pid\":{rank},\"ts\":{ts},\
             \"args\":{{\"in flight\":{in_flight},\"deferred\":{deferred}}}}}"
        );
        self.emit()
    }

    fn flights(&mut self, step: &Step<'_>, lanes: &mut Lanes<'_>) -> io::Result<()> {
        let ends = Ends::of(step.timeline);
        let mut flights: Vec<&Flight> = step.timeline.flights().iter().collect();
        flights.sort_by_key(|flight| (flight.start, flight.source));
        for flight in flights {
            let (start, end) = (step.start.saturating_add(flight.start), step.start.saturating_add(flight.end));
            let tid = lanes.take(flight.source, MESSAGES, start, end);
            let (name, source, destination) = (messages::name(flight.message), flight.source, flight.destination);
            let _ = write!(
                self.line,
                "{{\"name\":\"{name}\",\"cat\":\"message\",\"ph\":\"X\",\"pid\":{source},\"tid\":{tid},"
            );
            self.times(start, end);
            let _ = write!(self.line, ",\"args\":{{\"step\":{},\"to_rank\":{destination}}}}}", step.number);
            self.emit()?;
            if let Some((made, consumed)) = ends.get(flight.message) {
                self.n_flows += 1;
                self.flow("s", source, 0, step.start.saturating_add(made))?;
                self.flow("t", source, tid, start)?;
                self.flow("f\",\"bp\":\"e", destination, 0, step.start.saturating_add(consumed))?;
            }
        }
        Ok(())
    }

    /// A point of a message's arrow; it is bound to whatever runs there then.
    fn flow(&mut self, phase: &str, rank: Rank, tid: u32, time: u64) -> io::Result<()> {
        let (id, ts) = (self.n_flows, Micros(self.nanoseconds(time)));
        let _ = write!(
            self.line,
            "{{\"name\":\"message\",\"cat\":\"message\",\"ph\":\"{phase}\",\"id\":{id},\"pid\":{rank},\"tid\":{tid},\"ts\":{ts}}}"
        );
        self.emit()
    }

    fn extra<'a>(&mut self, extra: &'a [Extra], lanes: &mut Lanes<'a>) -> io::Result<()> {
        let mut extra: Vec<&Extra> = extra.iter().collect();
        extra.sort_by_key(|extra| (extra.start, extra.rank));
        for Extra { step, rank, lane, name, start, end } in extra {
            let tid = lanes.take(*rank, lane, *start, *end);
            let (name, lane) = (quoted(name)?, quoted(lane)?);
            let _ = write!(self.line, "{{\"name\":{name},\"cat\":\"extra\",\"ph\":\"X\",\"pid\":{rank},\"tid\":{tid},");
            self.times(*start, *end);
            let _ = write!(self.line, ",\"args\":{{\"step\":{step},\"lane\":{lane}}}}}");
            self.emit()?;
        }
        Ok(())
    }
}

/// Nanoseconds, written as microseconds without rounding.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 { write!(f, "{whole}") } else { write!(f, "{whole}.{rest:03}") }
    }
}
