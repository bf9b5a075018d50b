//! This very program as a controller that counts its allocations, which the built one does not: a request costs what it costs
//! on every machine, and so does an allocation, so that both can be held to a number.
#![allow(dead_code, reason = "shared by benches, of which none uses all")]

use super::Fallible;
use std::alloc::{GlobalAlloc, Layout};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first argument of the program that runs as a controller.
const AS_CONTROLLER: &str = "--as-counting-controller";

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The allocator of the built program, with a count.
pub(crate) struct CountingAllocator;

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait; each call is mimalloc's own")]
// SAFETY: every call is passed on as it is to an allocator that keeps the trait's promises.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this call.
        unsafe { mimalloc::MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this call.
        unsafe { mimalloc::MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this call.
        unsafe { mimalloc::MiMalloc.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of this call.
        unsafe { mimalloc::MiMalloc.dealloc(pointer, layout) }
    }
}

/// Calls this program as a controller; the controller's arguments follow.
pub(crate) fn command() -> Fallible<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(AS_CONTROLLER);
    Ok(command)
}

/// Runs the controller where this program is called as one, and says whether it was.
pub(crate) fn run_if_asked() -> Fallible<bool> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    if arguments.next().is_none_or(|first| first != AS_CONTROLLER) {
        return Ok(false);
    }
    super::testbed::provider();
    std::thread::spawn(answer);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _ = runtime.block_on(stator::cli::run(std::iter::once(program).chain(arguments).collect()));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    Ok(true)
}

/// Answers each line of the input with how often was allocated so far.
#[expect(clippy::print_stdout, reason = "the bench reads it from there")]
fn answer() {
    for _ in std::io::stdin().lines().map_while(Result::ok) {
        println!("{}", ALLOCATIONS.load(Ordering::Relaxed));
    }
}

/// Asks a controller that counts, by its input and its output.
pub(crate) fn ask(input: &mut impl Write, output: &mut impl Read) -> Fallible<u64> {
    writeln!(input)?;
    input.flush()?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    line.trim().parse().map_err(|_| format!("the controller counts {line:?} allocations").into())
}
