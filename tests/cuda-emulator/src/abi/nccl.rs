//! The C names of NCCL, as nccl.h declares them: arguments checked and made Rust's, a panic made an error.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::Arc;

use crate::driver;
use crate::nccl::call::Call;
use crate::nccl::comm::{Comm, Place, Request};
use crate::nccl::kinds::{Code, DataType, ReduceOp, Refusal};
use crate::nccl::meet::{ID_LEN, MOST_RANKS, Meeting};
use crate::nccl::operation::{Operation, Verb};
use crate::nccl::settings::settings;
use crate::nccl::{group, leave, registry, split};

/// `ncclUniqueId`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UniqueId {
    /// What it is made of.
    pub internal: [u8; ID_LEN],
}

/// The beginning of `ncclConfig_t`, as long as it has been the same in every version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    /// Bytes of all of it.
    pub size: usize,
    /// [`CONFIG_MAGIC`].
    pub magic: u32,
    /// The version it was compiled for, as a code.
    pub version: u32,
    /// Whether calls block; [`UNSET`] is yes.
    pub blocking: c_int,
    /// Not used here.
    pub cga_cluster_size: c_int,
    /// The least thread blocks; not used here, but checked.
    pub min_ctas: c_int,
    /// The most.
    pub max_ctas: c_int,
    /// Not used here.
    pub net_name: *const c_char,
    /// Not used here.
    pub split_share: c_int,
    /// Not used here. From 2.26 on.
    pub traffic_class: c_int,
    /// What reports call the communicator. From 2.27 on.
    pub comm_name: *const c_char,
}

/// What every `ncclConfig_t` holds as its magic.
pub const CONFIG_MAGIC: u32 = 0xcafe_beef;
/// A number in a configuration that was not set.
pub const UNSET: c_int = c_int::MIN;
/// Bytes up to and with `blocking`, all that the first version has; more than any version has.
const SHORTEST_CONFIG: usize = 20;
const LONGEST_CONFIG: usize = 4096;

/// What a handle of a communicator is in C.
pub type CommHandle = *mut c_void;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a call: what it refuses is kept for `ncclGetLastError`, a panic is an internal error.
fn answer(call: impl FnOnce() -> Result<Code, Refusal>) -> c_int {
    let guarded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // A variable that cannot be read must not pass for one that is not set.
        settings()?;
        call()
    }));
    let result = guarded.unwrap_or_else(|_| {
        Err(Refusal { code: Code::InternalError, text: "the emulator panicked; see what it printed".into() })
    });
    match result {
        Ok(code) => code as c_int,
        Err(refusal) => {
            say(&refusal.text);
            refusal.code as c_int
        }
    }
}

fn say(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has no last error.
    let _ = LAST.try_with(|last| last.replace(text));
}

fn write<T>(to: *mut T, value: T, name: &str) -> Result<(), Refusal> {
    if to.is_null() {
        return Err(Refusal::argument(format!("{name} is null")));
    }
    // SAFETY: the caller of the C function says that what is not null may be written.
    unsafe { to.write(value) };
    Ok(())
}

/// `ncclGetVersion`.
///
/// # Safety
/// `version` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    answer(|| write(version, settings()?.version, "version").map(|()| Code::Success))
}

/// `ncclGetErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(result: c_int) -> *const c_char {
    Code::of(result).map_or(c"unknown result code", Code::text).as_ptr()
}

/// `ncclGetLastError`: of the communicator's failure, if it has one, else of this thread's last call that was refused.
///
/// # Safety
/// What it gives is good until this thread's next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetLastError(comm: CommHandle) -> *const c_char {
    if !comm.is_null()
        && let Ok(comm) = registry::get(comm as usize)
    {
        let failure = comm.lock().failure.clone();
        if let Some(failure) = failure {
            say(&failure.text);
        }
    }
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// `ncclGetUniqueId`.
///
/// # Safety
/// `id` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    answer(|| {
        let meeting = Meeting::open().map_err(|error| Refusal::system(format!("cannot open a socket: {error}")))?;
        write(id, UniqueId { internal: meeting.id() }, "the id")?;
        meeting.keep();
        Ok(Code::Success)
    })
}

/// `ncclCommInitRank`: as `ncclCommInitRankConfig` without a configuration.
///
/// # Safety
/// `comm` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRank(comm: *mut CommHandle, n_ranks: c_int, id: UniqueId, rank: c_int) -> c_int {
    answer(|| init(comm, n_ranks, &id, rank, request(None)?))
}

/// `ncclCommInitRankConfig`.
///
/// # Safety
/// `comm` is null or may be written; `config` is null or an `ncclConfig_t`, as long as it says, with texts that end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankConfig(
    comm: *mut CommHandle,
    n_ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let config = unsafe { read_config(config) }?;
        init(comm, n_ranks, &id, rank, request(config)?)
    })
}

/// What a configuration says that is used here.
struct Asked {
    blocking: bool,
    name: Option<String>,
}

/// # Safety
/// It is null or an `ncclConfig_t`, as long as it says, with texts that end.
unsafe fn read_config(config: *mut c_void) -> Result<Option<Asked>, Refusal> {
    if config.is_null() {
        return Ok(None);
    }
    // SAFETY: every version is at least 16 bytes long, says the caller.
    let (size, magic) = unsafe { (*config.cast::<usize>(), *config.byte_add(8).cast::<u32>()) };
    if magic != CONFIG_MAGIC {
        return Err(Refusal::argument(format!("the configuration's magic is {magic:#x}, not {CONFIG_MAGIC:#x}")));
    }
    if !(SHORTEST_CONFIG..=LONGEST_CONFIG).contains(&size) {
        return Err(Refusal::argument(format!("a configuration of {size} bytes (at least {SHORTEST_CONFIG})")));
    }
    let mut known = Config::unset();
    // Fields were only ever added at the end; a pointer that is not all there is none.
    let n_bytes =
        if size < size_of::<Config>() { size.min(offset_of!(Config, comm_name)) } else { size_of::<Config>() };
    // SAFETY: the caller's is `size` bytes long, ours as long as we know it; any bytes are numbers and pointers.
    unsafe { std::ptr::copy_nonoverlapping(config.cast::<u8>(), (&raw mut known).cast::<u8>(), n_bytes) };
    if !(21_400..100_000).contains(&known.version) {
        return Err(Refusal::argument(format!("the configuration is of version {}, which has none", known.version)));
    }
    if ![UNSET, 0, 1].contains(&known.blocking) {
        return Err(Refusal::argument(format!("blocking is {}, neither 0 nor 1", known.blocking)));
    }
    for (name, n_ctas) in [("minCTAs", known.min_ctas), ("maxCTAs", known.max_ctas)] {
        if n_ctas != UNSET && n_ctas <= 0 {
            return Err(Refusal::argument(format!("{name} is {n_ctas}, which is not above 0")));
        }
    }
    if known.min_ctas != UNSET && known.max_ctas != UNSET && known.min_ctas > known.max_ctas {
        return Err(Refusal::argument(format!("minCTAs {} is above maxCTAs {}", known.min_ctas, known.max_ctas)));
    }
    // SAFETY: the caller says that it ends.
    let name = (!known.comm_name.is_null()).then(|| unsafe { CStr::from_ptr(known.comm_name) });
    let name = name.map(|name| name.to_string_lossy().into_owned());
    Ok(Some(Asked { blocking: known.blocking != 0, name }))
}

impl Config {
    /// As nccl.h initialises it, of the emulator's own version.
    pub const fn unset() -> Self {
        Self {
            size: size_of::<Self>(),
            magic: CONFIG_MAGIC,
            version: 23_004,
            blocking: UNSET,
            cga_cluster_size: UNSET,
            min_ctas: UNSET,
            max_ctas: UNSET,
            net_name: std::ptr::null(),
            split_share: UNSET,
            traffic_class: UNSET,
            comm_name: std::ptr::null(),
        }
    }
}

/// What is asked for, with the caller's device.
fn request(asked: Option<Asked>) -> Result<Request, Refusal> {
    let cuda = |text: String| Refusal { code: Code::CudaError, text };
    let context = driver::current_context().ok_or_else(|| cuda("no context is current on this thread".into()))?;
    let device = driver::device_of_context(context).map_err(|error| cuda(error.to_string()))?;
    let Asked { blocking, name } = asked.unwrap_or(Asked { blocking: true, name: None });
    Ok(Request { blocking, device: device as u32, name })
}

fn init(comm: *mut CommHandle, n_ranks: c_int, id: &UniqueId, rank: c_int, request: Request) -> Result<Code, Refusal> {
    if comm.is_null() {
        return Err(Refusal::argument("comm is null"));
    }
    let place = match (usize::try_from(rank), usize::try_from(n_ranks)) {
        (Ok(rank), Ok(n_ranks)) if rank < n_ranks && n_ranks <= MOST_RANKS => Place { rank, n_ranks },
        _ => return Err(Refusal::argument(format!("rank {rank} of {n_ranks}"))),
    };
    let made = Comm::new(request);
    made.begin(id.internal, place)?;
    write(comm, registry::add(Arc::clone(&made)) as CommHandle, "comm")?;
    group::made(&made)
}

/// `ncclCommSplit`. The new communicator can be used once both are no longer in progress.
///
/// # Safety
/// As `ncclCommInitRankConfig`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommSplit(
    comm: CommHandle,
    color: c_int,
    key: c_int,
    new: *mut CommHandle,
    config: *mut c_void,
) -> c_int {
    answer(|| {
        let parent = registry::get(comm as usize)?;
        // SAFETY: the caller says so.
        let asked = unsafe { read_config(config) }?;
        let inherited = parent.request.clone();
        let request =
            asked.map_or(inherited.clone(), |Asked { blocking, name }| Request { blocking, name, ..inherited });
        if color < -1 {
            return Err(Refusal::argument(format!("color {color}: colors begin at 0, and -1 is none")));
        }
        write(new, std::ptr::null_mut(), "the new communicator")?;
        let child = split::split(&parent, (color >= 0).then_some(color), key, request)?;
        if let Some(child) = &child {
            write(new, registry::add(Arc::clone(child)) as CommHandle, "the new communicator")?;
        }
        if !parent.request.blocking {
            return Ok(Code::InProgress);
        }
        parent.settle()?;
        child.map_or(Ok(Code::Success), |child| group::made(&child))
    })
}

/// `ncclCommGetAsyncError`.
///
/// # Safety
/// `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(comm: CommHandle, error: *mut c_int) -> c_int {
    answer(|| {
        let code = group::status(&*registry::get(comm as usize)?);
        write(error, code as c_int, "the error").map(|()| Code::Success)
    })
}

/// `ncclCommFinalize`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommFinalize(comm: CommHandle) -> c_int {
    answer(|| {
        let comm = registry::get(comm as usize)?;
        leave::finalize(&comm)?;
        if comm.request.blocking { comm.settle().map(|()| Code::Success) } else { Ok(Code::InProgress) }
    })
}

/// `ncclCommDestroy`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommDestroy(comm: CommHandle) -> c_int {
    answer(|| leave::destroy(&registry::remove(comm as usize)?).map(|()| Code::Success))
}

/// `ncclCommAbort`: from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommAbort(comm: CommHandle) -> c_int {
    answer(|| leave::abort(&*registry::remove(comm as usize)?).map(|()| Code::Success))
}

fn ask(comm: CommHandle, to: *mut c_int, what: impl FnOnce(&Comm) -> usize) -> c_int {
    answer(|| {
        let comm = registry::get(comm as usize)?;
        comm.ready()?;
        write(to, what(&comm) as c_int, "where to put the answer").map(|()| Code::Success)
    })
}

/// `ncclCommCount`.
///
/// # Safety
/// `count` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCount(comm: CommHandle, count: *mut c_int) -> c_int {
    ask(comm, count, |comm| comm.place().n_ranks)
}

/// `ncclCommUserRank`.
///
/// # Safety
/// `rank` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommUserRank(comm: CommHandle, rank: *mut c_int) -> c_int {
    ask(comm, rank, |comm| comm.place().rank)
}

/// `ncclCommCuDevice`.
///
/// # Safety
/// `device` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCuDevice(comm: CommHandle, device: *mut c_int) -> c_int {
    ask(comm, device, |comm| comm.request.device as usize)
}

/// `ncclGroupStart`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> c_int {
    answer(|| {
        group::start();
        Ok(Code::Success)
    })
}

/// `ncclGroupEnd`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> c_int {
    answer(group::end)
}

/// Where an operation is to go.
struct Where {
    comm: CommHandle,
    stream: *mut c_void,
}

/// An operation's element count and type, as C says them.
type Elements = (usize, c_int);

/// An operation: what is the same for all of them.
fn operate(
    name: &str,
    place: Where,
    (count, dtype): Elements,
    (from, to): (*const c_void, *const c_void),
    verb: impl FnOnce(usize) -> Result<Verb, Refusal>,
) -> c_int {
    answer(|| {
        let called = (|| {
            let comm = registry::get(place.comm as usize)?;
            comm.ready()?;
            let Place { rank, n_ranks } = comm.place();
            let dtype = DataType::of(dtype)
                .ok_or_else(|| Refusal::argument(format!("{name}: the emulator knows no type {dtype}")))?;
            let operation = Operation { verb: verb(n_ranks)?, count, dtype, from: from as u64, to: to as u64 };
            let bytes = count.checked_mul(dtype.n_bytes()).and_then(|bytes| bytes.checked_mul(n_ranks));
            if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
                return Err(Refusal::argument(format!("{name}: {count} elements are too many")));
            }
            let (read, written) = operation.extent(rank, n_ranks);
            if (read > 0 && from.is_null()) || (written > 0 && to.is_null()) {
                return Err(Refusal::argument(format!("{name}: a buffer is null")));
            }
            Ok(Call { comm, operation, stream: place.stream as usize })
        })();
        called.inspect_err(group::refuse).and_then(group::call)
    })
}

fn rank_of(name: &str, number: c_int, n_ranks: usize) -> Result<usize, Refusal> {
    let rank = usize::try_from(number).ok().filter(|&rank| rank < n_ranks);
    rank.ok_or_else(|| Refusal::argument(format!("{name}: there is no rank {number} among {n_ranks}")))
}

fn reduce_op(name: &str, number: c_int) -> Result<ReduceOp, Refusal> {
    ReduceOp::of(number).ok_or_else(|| Refusal::argument(format!("{name}: the emulator knows no reduction {number}")))
}

/// `ncclSend`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclSend(
    from: *const c_void,
    count: usize,
    dtype: c_int,
    peer: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |n_ranks| rank_of("ncclSend", peer, n_ranks).map(|peer| Verb::Send { peer });
    operate("ncclSend", Where { comm, stream }, (count, dtype), (from, std::ptr::null()), verb)
}

/// `ncclRecv`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclRecv(
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    peer: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |n_ranks| rank_of("ncclRecv", peer, n_ranks).map(|peer| Verb::Receive { peer });
    operate("ncclRecv", Where { comm, stream }, (count, dtype), (std::ptr::null(), to), verb)
}

/// `ncclAllReduce`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclAllReduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |_| reduce_op("ncclAllReduce", op).map(Verb::AllReduce);
    operate("ncclAllReduce", Where { comm, stream }, (count, dtype), (from, to), verb)
}

/// `ncclAllGather`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclAllGather(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    operate("ncclAllGather", Where { comm, stream }, (count, dtype), (from, to), |_| Ok(Verb::AllGather))
}

/// `ncclReduceScatter`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclReduceScatter(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |_| reduce_op("ncclReduceScatter", op).map(Verb::ReduceScatter);
    operate("ncclReduceScatter", Where { comm, stream }, (count, dtype), (from, to), verb)
}

/// `ncclBroadcast`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclBroadcast(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |n_ranks| rank_of("ncclBroadcast", root, n_ranks).map(|root| Verb::Broadcast { root });
    operate("ncclBroadcast", Where { comm, stream }, (count, dtype), (from, to), verb)
}

/// `ncclReduce`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclReduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    root: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb =
        |n_ranks| Ok(Verb::Reduce { op: reduce_op("ncclReduce", op)?, root: rank_of("ncclReduce", root, n_ranks)? });
    operate("ncclReduce", Where { comm, stream }, (count, dtype), (from, to), verb)
}
