mod laws;
mod pruning;
mod records;
mod stories;
mod world;
