//! Bounds of what may arrive, each with its reason. Anything above a bound is refused before memory is reserved for it.

/// Body bytes of a frame before a peer or client is welcomed: a Hello is far smaller, and a stranger
/// must cost almost nothing.
pub const HELLO_BODY_BYTES_MAX: usize = 4 << 10;

/// Body bytes of a frame between a client and a node: payloads are arguments, not files.
pub const CLIENT_BODY_BYTES_MAX: usize = 8 << 20;

/// Body bytes of a frame between nodes: the largest batch, a page of promises or a snapshot chunk.
pub const PEER_BODY_BYTES_MAX: usize = 32 << 20;

/// Space a reader offers to the first read of a quiet connection; idle connections stay cheap.
pub const READ_BYTES_MIN: usize = 4 << 10;

/// Space a reader offers to one read of a busy connection: larger reads save no more system calls.
pub const READ_BYTES_MAX: usize = 256 << 10;

/// A frame of this size or more is read into memory of its own: one more system call costs less than zeroing that memory, and
/// the values in the frame hold no others' bytes in memory.
pub const LARGE_FRAME_BYTES: usize = 32 << 10;

/// A value of this size or more is written from where it lies: a smaller copy is cheaper than two more pieces in a vectored
/// write.
pub const SHARE_BYTES_MIN: usize = 4 << 10;

/// Bytes of an address, `host:port`: the longest DNS name and a port.
pub const ADDRESS_BYTES_MAX: usize = 261;

/// Bytes of an object's name or class.
pub const NAME_BYTES_MAX: usize = 255;

/// Bytes of explanations for people (reject texts, software names).
pub const TEXT_BYTES_MAX: usize = 1024;

/// Objects of one group; keeps the welcome and the view small.
pub const OBJECTS_MAX: usize = 4096;

/// Groups that a node names in its Hello.
pub const GROUPS_MAX: usize = 256;

/// Slots or batches that one message lists; the senders page far below it.
pub const ENTRIES_MAX: usize = 1 << 16;

/// Sessions in one snapshot: a million clients, each with its window.
pub const SESSIONS_MAX: usize = 1 << 20;

/// Replies of one session in a snapshot: its window, its parked calls and their answers are fewer.
pub const REPLIES_MAX: usize = 1 << 16;

/// Counters (sequences, rounds, views) on the wire lie below this number, so that no sum of two
/// overflows where they are used.
pub const COUNTER_LIMIT: u64 = 1 << 63;

/// Slots on the wire lie below this number: a session's id keeps its slot in 47 bits.
pub const SLOT_LIMIT: u64 = 1 << 47;

/// Levels of nesting of a value: deeper ones could exhaust the stack of who walks them.
pub const VALUE_DEPTH_MAX: usize = 64;

/// Values inside one value: a one-byte item costs 32 bytes once decoded.
pub const VALUE_ITEMS_MAX: usize = 1 << 20;

/// Bytes of a method's name.
pub const METHOD_BYTES_MAX: usize = 255;

/// Digits and signs of a decimal number's text.
pub const DECIMAL_BYTES_MAX: usize = 4096;

/// Bytes of the magnitude of an integer: Python's own limit on converting digits is far lower.
pub const INTEGER_BYTES_MAX: usize = 64 << 10;

/// Bytes of a value that comes in parts by multicast: more than a batch of small commands.
pub const PARTED_VALUE_BYTES_MAX: usize = 2 << 20;

/// Values of one leader of which some parts have come: more than it has under way.
pub const PARTED_VALUES_MAX: usize = 256;

/// Bytes of those parts.
pub const PARTED_BYTES_MAX: usize = 16 << 20;
