// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/exit_status.hpp"

namespace cxxrun {

/// What is known of one worker's failure. Travels from its agent to the coordinator and from there to every
/// node.
struct Failure {
  std::int64_t round = 0;
  int rank = -1;  ///< global; -1: the failure is the node's, not one worker's
  int local_rank = -1;
  int group_rank = -1;
  std::string host;  ///< the node's name, as that node calls itself
  std::int64_t pid = 0;
  ExitStatus status;
  std::string
      message;  ///< one line: the exception of the error file, or why it could not start; may be empty
  std::string traceback;  ///< from the error file; may be empty
  bool own_exception =
      false;  ///< an error file with an exception of its own: not a consequence of a peer's death
  bool outside_signal = false;  ///< ended by a signal that we did not send
  std::vector<std::string>
      last_words;  ///< last lines of stderr, oldest first; kLastWordsLinesMax, kLastWordsBytesMax
  std::string last_words_note;        ///< why last_words is empty, or where the full text is
  std::chrono::milliseconds age{0};   ///< how long before it was sent it happened; 0..kFailureAgeMax
  std::chrono::milliseconds wall{0};  ///< when, since the epoch by its own node's clock; only for people
  std::string error_file;             ///< kept there on its node; may be empty
  std::string evidence;  ///< one line: what else its node saw in that moment (memory); may be empty
};

}  // namespace cxxrun
