//! The replica above an ordering that decides at once: what clients see, what snapshots hold, and
//! what happens when the objects, the leader or the majority fail.

mod admission;
mod ages;
mod agreement;
mod clocks;
mod collecting;
mod disconnects;
mod drift;
mod early;
mod fetching;
mod groups;
mod kept;
mod levels;
mod members;
mod no_say;
mod orderings;
mod ownership;
mod parked;
mod poison;
mod reads;
mod rejoining;
mod reset;
mod restoring;
mod resuming;
mod sessions;
mod skip;
mod snapshots;
mod speculating;
mod storage;
mod thaw;
mod ticks;
mod turns;
mod views;
mod waiting_at_random;
mod witnesses;
mod world;
