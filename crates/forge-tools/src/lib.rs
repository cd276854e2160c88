//! What a model may call: tools, one executor, approvals, audit.
