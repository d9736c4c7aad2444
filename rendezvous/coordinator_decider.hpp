// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/coordinator.hpp"
#include "rendezvous/naming.hpp"

/// The coordinator's rules, for the files coordinator*.cpp only: one object lives for one call of step().
///   coordinator.cpp            what holds after every event
///   coordinator_admission.cpp  who may join, who comes back
///   coordinator_members.cpp    what members say, and how they go
///   coordinator_rounds.cpp     a round's start, its stop, and the end
///   coordinator_fences.cpp     fences
///   coordinator_notices.cpp    what the members are told while they wait
namespace cxxrun::rendezvous {

inline constexpr Duration kFirstNotice = 200ms;   ///< a job that starts at once should say nothing
inline constexpr Duration kStoppingNotice = 2s;   ///< then it is told who still stops
inline constexpr Duration kNoticeGapFirst = 15s;  ///< then doubling: at most 10 lines in the first minute

/// One call of step(): the state, the time and the actions so far.
class CoordinatorDecider {
 public:
  CoordinatorDecider(const CoordinatorConfig& config, CoordinatorState state, Time now)
      : config_(config), s_(std::move(state)), now_(now) {}

  void on(const event::Joined& e);
  void on(const event::Ready& e);
  void on(const event::Failed& e);
  void on(const event::Done& e);
  void on(const event::Left& e);
  void on(const event::GoingAway& e);
  void on(const event::Cut& e);
  void on(const event::Silent& e);
  void on(const event::FencePart& e);
  void on(const event::Suspended& e);
  void on(const event::Tick&) {}

  CoordinatorStep finish();

 private:
  CoordinatorMember* find(MemberId id) {
    const auto it = s_.members.find(id);
    return it == s_.members.end() ? nullptr : &it->second;
  }
  void send(MemberId to, wire::Message message) { actions_.push_back(action::Send{to, std::move(message)}); }
  /// For the console of the host, which nobody tells otherwise.
  void note(std::string sentence) { actions_.push_back(action::Note{std::move(sentence), false, false}); }
  /// The members are told themselves.
  void note_told(std::string sentence) { actions_.push_back(action::Note{std::move(sentence), true, false}); }
  [[nodiscard]] std::string name_of(const CoordinatorMember& m) const { return full_name(s_, m); }
  [[nodiscard]] std::string job_name() const;
  [[nodiscard]] std::string leaving_text(const CoordinatorMember& m, const std::string& sentence) const;
  std::vector<MemberId> told_order() const;

  std::optional<wire::Refused> disagreement(const event::Joined& e) const;
  std::optional<wire::Refused> objection(const event::Joined& e) const;
  std::optional<wire::Refused> rank_objection(const event::Joined& e);
  bool reattach(const event::Joined& e);
  void replace_lost_twin(const wire::Hello& hello, const Link& link);
  void learn(const wire::Hello& hello);

  void lose(MemberId id, std::string how, bool silent);
  void depart(MemberId id, const std::string& sentence);
  void check_done();
  [[nodiscard]] Duration rejoin_limit() const;
  void begin_gathering(bool first);
  void stop_round(std::string reason, const std::optional<Failure>& cause);
  void end_stopping_if_all_stopped();
  std::optional<Failure> root_cause() const;
  bool old_round_accounted_for() const;
  void start_if_possible();
  void let_newcomer_in();
  void start(const std::vector<MemberId>& ranked);
  [[nodiscard]] bool hopeless(const Failure& root) const;
  void give_up(const Failure& root);
  void close(Outcome outcome, int exit_code, std::string reason, std::optional<Failure> root,
             std::string no_restart = "");
  wire::Close close_for(const CoordinatorMember& m) const;
  void answer_fence(const std::string& name, const FenceState& fence, std::optional<MemberId> only);
  void forget_old_fences();
  void fail_open_fences(const std::string& why);
  void settle();
  void tell_spares();
  void tell_waiting();
  void tell_stopping();
  void tell_ready(const std::string& words);
  int live_in_round() const;
  Time next_wake() const;

  const CoordinatorConfig& config_;
  CoordinatorState s_;
  Time now_;
  std::vector<CoordinatorAction> actions_;
};

/// "rank 1 on hb failed: exit code 7: MESSAGE".
[[nodiscard]] std::string failure_text(const Failure& f);

}  // namespace cxxrun::rendezvous
