mod laws;
mod pruning;
mod records;
mod sets;
mod stories;
mod world;
