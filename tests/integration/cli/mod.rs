//! What a user of the command line sees.

mod usage;
