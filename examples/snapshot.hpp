// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.hpp"

namespace examples {

/// Where a training run stands at the end of an epoch.
struct Snapshot {
  int epochs_done = 0;
  std::string state;  ///< CharModel::save()

  /// Replaces `path` in one step: after a crash there is the old snapshot or the new one, whole.
  [[nodiscard]] cxxrun::Result<> save(const std::string& path) const;
  /// Nothing there: epochs_done 0 and no state. Errors: unreadable, or damaged.
  static cxxrun::Result<Snapshot> load(const std::string& path);
};

}  // namespace examples
