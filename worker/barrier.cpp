// SPDX-License-Identifier: Apache-2.0
#include "worker/barrier.hpp"

namespace cxxrun::worker {
namespace {

constexpr int kNamedMissingMax = 8;  // ranks that an error names one by one

}  // namespace

Barrier::Barrier(Store& store, const Ranks& ranks, std::string name)
    : store_(&store), rank_(ranks.rank), world_size_(ranks.world_size), name_(std::move(name)) {}

std::string Barrier::key(std::int64_t pass, std::string_view what) const {
  return "barrier/" + name_ + "/" + std::to_string(pass) + "/" + std::string(what);
}

Result<> Barrier::pass(Duration timeout) {
  const std::int64_t pass = passes_++;
  auto noted = store_->set(key(pass, std::to_string(rank_)), "");
  if (!noted) return std::move(noted).error().context("barrier " + name_);
  auto count = store_->add(key(pass, "count"), 1);
  if (!count) return std::move(count).error().context("barrier " + name_);
  if (*count == world_size_) {
    auto opened = store_->set(key(pass, "open"), "");
    if (!opened) return std::move(opened).error().context("barrier " + name_);
  }
  auto open = store_->wait({key(pass, "open")}, timeout);
  if (!open && open.error().code == std::errc::timed_out && store_->connected())
    return Error{open.error().code, "barrier " + name_ + ": not all ranks in " + text(timeout) +
                                        "; missing: " + missing_ranks()};
  if (!open) return std::move(open).error().context("barrier " + name_);
  // Whoever stands here knows that all have left the pass before: its keys are of no use to anybody.
  if (pass > 0) {
    auto forgotten = store_->delete_key(key(pass - 1, std::to_string(rank_)));
    if (forgotten && rank_ == 0) forgotten = store_->delete_key(key(pass - 1, "count"));
    if (forgotten && rank_ == 0) forgotten = store_->delete_key(key(pass - 1, "open"));
    if (!forgotten) return std::move(forgotten).error().context("barrier " + name_);
  }
  return kOk;
}

std::string Barrier::missing_ranks() {
  std::string named;
  int missing = 0;
  for (int rank = 0; rank < world_size_; ++rank) {
    const auto came = store_->check({key(passes_ - 1, std::to_string(rank))});
    if (!came) return "unknown (" + came.error().message + ")";
    if (*came) continue;
    if (++missing > kNamedMissingMax) continue;
    named += (named.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  if (missing > kNamedMissingMax) named += " and " + std::to_string(missing - kNamedMissingMax) + " more";
  return named.empty() ? "none any more" : named;
}

}  // namespace cxxrun::worker
