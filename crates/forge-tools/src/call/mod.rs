//! The road of a call. Each step is a type that only the step before makes:
//!
//! 1. [`request`]: a call as a client makes it.
//! 2. [`parsed`]: its tool is known, and its arguments are read.
//! 3. [`judged`]: its intents are known, and the judgement about them.
//! 4. [`approved`]: it may be made; [`asking`] has asked a person if that was needed. [`run`] does
//!    its work.
//! 5. [`outcome`]: its result, truncated and recorded.
//!
//! [`ending`] is the end of a command whose caller has gone.
//!
//! [`pending`] is the record of a call from the first step on, and [`ahead`] asks about all calls
//! of a turn before the first is made.

pub(crate) mod ahead;
pub(crate) mod approved;
pub(crate) mod asking;
pub(crate) mod ending;
pub(crate) mod judged;
pub(crate) mod outcome;
pub(crate) mod parsed;
pub(crate) mod pending;
pub(crate) mod request;
pub(crate) mod run;
