//! What a panic says on standard error.

use stator_core::mask;
use stator_model::present::escape;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

/// A panic in the words of the standard library, with tokens hidden as in everything else that is printed: a message may
/// quote what was read.
pub fn describe_panic(panic: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("<unnamed>");
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = escape::lines(panic.payload_as_str().unwrap_or("Box<dyn Any>"));
    let backtrace = Backtrace::capture();
    let trace = if backtrace.status() == BacktraceStatus::Captured {
        format!("stack backtrace:\n{backtrace}")
    } else {
        "note: run with `RUST_BACKTRACE=1` in the environment to see a backtrace\n".to_owned()
    };
    let text = format!("thread '{thread}' panicked{place}:\n{message}\n{trace}");
    mask::redact_tokens(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_panic_says_where_it_was_and_no_token() {
        const THREAD: &str = "a-thread-that-panics";
        let said = Arc::new(Mutex::new(String::new()));
        let (kept, usual) = (Arc::clone(&said), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| match std::thread::current().name() {
            Some(THREAD) => *kept.lock().unwrap() = describe_panic(panic),
            Some(_) | None => usual(panic),
        }));
        let token = ["gh", "p_9aQ2mZxW7LkP0vRtY4bNc6HdJs8UfE1gTiKo"].concat();
        let work = move || panic!("cannot read {token}\u{1b}[31m");
        assert!(std::thread::Builder::new().name(THREAD.to_owned()).spawn(work).unwrap().join().is_err());
        let said = said.lock().unwrap().clone();
        let start = format!("thread '{THREAD}' panicked at {}:", file!());
        assert!(said.starts_with(&start) && said.contains(":\ncannot read ***\\u{1b}[31m\n"), "{said}");
    }
}
