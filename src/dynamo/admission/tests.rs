//! Verdicts of a real API server against [`super::check`].
