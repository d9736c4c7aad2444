// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cxxrun::launcher {

/// In the agent: our stdin is the terminal of the command that the user started, and another job stands in
/// its foreground now. A plain program would be stopped when it reads it; a worker has a session of its own
/// and would take what is typed for the shell. False when there is no such terminal.
[[nodiscard]] bool terminal_belongs_to_others();

}  // namespace cxxrun::launcher
