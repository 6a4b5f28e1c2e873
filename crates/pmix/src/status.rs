//! Numbers of the PMIx standard by which operations end.

/// Done.
pub const SUCCESS: i32 = 0;
/// Failed.
pub const ERROR: i32 = -1;
/// The time that the caller has named is over.
pub const TIMEOUT: i32 = -24;
/// Fault in what was handed over: it is not what it should be.
pub const BAD_PARAMETER: i32 = -27;
/// Refusal, as there are too many already.
pub const OUT_OF_RESOURCE: i32 = -29;
/// Lack of what was looked for.
pub const NOT_FOUND: i32 = -46;
/// Not served here.
pub const NOT_SUPPORTED: i32 = -47;
/// The key is published already.
pub const DUPLICATE_KEY: i32 = -53;
/// The call is over, and there is no answer to wait for.
pub const OPERATION_SUCCEEDED: i32 = -157;
/// New processes could not be started.
pub const FAILED_TO_LAUNCH: i32 = -181;
