//! What is spoken between a broker and a node: that it holds whatever the other side says, and that
//! nothing outlives either.
