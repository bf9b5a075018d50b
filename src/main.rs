//! The `stator` binary.

use std::process::ExitCode;

/// Plans of ten thousand models are many small allocations from all cores, which the system's allocator does slowly.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything opens a connection: rustls wants exactly one provider, chosen by the program. A second call cannot
    // happen, and would change nothing.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    std::panic::set_hook(Box::new(|panic| {
        stator::controller::metrics::count_panic();
        let note = "note: this is a bug in stator; please report it with the command and the lines above\n";
        let text = stator::telemetry::describe_panic(panic) + note;
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    }));
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(stator::cli::run(std::env::args_os().collect()));
            // A thread that waits for a host must not keep the process: what it did not finish is done by the next one.
            runtime.shutdown_timeout(std::time::Duration::from_secs(1));
            exit.into()
        }
        Err(error) => {
            let text = format!("error: the runtime could not start: {error}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            ExitCode::from(2)
        }
    }
}
