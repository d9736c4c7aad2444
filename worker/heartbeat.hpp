// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cxxrun::worker {

/// Tells the launcher that this worker goes on: once for each step, say. With --heartbeat-timeout S a worker
/// that has beaten once and then is silent for S seconds is taken for hung: it dumps its stacks where it can,
/// and has failed. One small write, which never waits; does nothing under another launcher, or without the
/// option. From any thread.
void beat() noexcept;

/// Nothing is due until the next beat(): before something long that is meant to be, a checkpoint for example.
void rest() noexcept;

}  // namespace cxxrun::worker
