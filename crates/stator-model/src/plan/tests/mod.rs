mod laws;
mod pruning;
mod records;
mod requests;
mod sets;
mod stories;
mod updates;
mod world;
