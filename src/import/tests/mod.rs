//! Tests of importing: every manifest of upstream's there and back, stories, laws.

mod round_trip;
