// SPDX-License-Identifier: Apache-2.0
// A data-parallel trainer in one process per rank: each rank takes its part of every batch, Gloo averages the
// gradients, all ranks make the same step, and rank 0 writes a snapshot after each epoch from which a
// restarted group goes on.
//
//   cxxrun --nproc_per_node 2 train                    on this machine
//   cxxrun --nnodes 3 --rdzv-endpoint HOST:PORT train  on three, the same line on each
#include <getopt.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/exit_status.hpp"
#include "examples/char_model.hpp"
#include "examples/snapshot.hpp"
#include "worker/error_record.hpp"
#include "worker/gloo_store.hpp"
#include "worker/ranks.hpp"
#include "worker/store.hpp"

namespace {

using namespace cxxrun;
using namespace std::chrono_literals;
using examples::CharModel;
using examples::Snapshot;
using examples::Text;

constexpr const char* kUsage =
    R"(usage: cxxrun [...] train [--epochs N] [--data FILE] [--snapshot FILE] [--batch N] [--slow MS] [--die-at E:R:HOW]

  --epochs N     passes over the text (default 6)
  --data FILE    the text to learn (default: data/genesis.txt beside this program)
  --snapshot F   rank 0 writes it after each epoch, and a new start goes on from it (default train.snapshot; "": none)
  --batch N      characters that a rank guesses in one step (default 256)
  --patience MS  after a peer has gone: time for the launcher to stop us, before we end with 1 (default 1000)
  --slow MS      pause in every step, to have time for breaking things by hand
  --die-at E:R:HOW   in the middle of epoch E, on the first attempt only, rank R ends itself; HOW is an exit code or
                 a signal (7, SIGKILL, SIGSEGV)
)";

/// A failure asked for on the command line.
struct Death {
  int epoch = 0, rank = 0;
  ExitStatus how = Exited{7};
};

struct Options {
  int epochs = 6;
  int batch = 256;
  std::chrono::milliseconds slow{0};
  std::chrono::milliseconds patience{1'000};
  std::string data;
  std::string snapshot = "train.snapshot";
  std::optional<Death> die_at;
};

/// Why training stopped early. A peer's end is the launcher's to judge, and leaves no error record of ours.
struct Stop {
  const char* kind = "TrainError";
  Error error;
  bool peer = false;
};
Stop peer_gone(Error error) { return {"PeerGone", std::move(error), true}; }

std::optional<int> number(std::string_view text, int low) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low) return std::nullopt;
  return value;
}

/// "3:1:SIGKILL".
std::optional<Death> parse_death(std::string_view text) {
  const std::size_t first = text.find(':');
  const std::size_t second = text.find(':', first == text.npos ? first : first + 1);
  if (first == text.npos) return std::nullopt;
  const auto epoch = number(text.substr(0, first), 1);
  const auto rank = number(text.substr(first + 1, second == text.npos ? second : second - first - 1), 0);
  if (!epoch || !rank) return std::nullopt;
  Death death{.epoch = *epoch, .rank = *rank};
  if (second == text.npos) return death;
  const std::string_view how = text.substr(second + 1);
  if (const auto code = number(how, 0); code && *code <= 255)
    death.how = Exited{*code};
  else if (const int signo = signal_number(how); signo > 0)
    death.how = Signaled{signo};
  else
    return std::nullopt;
  return death;
}

std::string default_data() {
  std::array<char, PATH_MAX> self{};
  if (::readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) return "genesis.txt";
  const std::string path(self.data());
  return path.substr(0, path.rfind('/') + 1) + "data/genesis.txt";
}

/// Nothing: a sentence was printed, leave with 2.
std::optional<Options> parse_options(int argc, char** argv) {
  const option known[] = {
      {"epochs", 1, nullptr, 'e'}, {"data", 1, nullptr, 'd'}, {"snapshot", 1, nullptr, 's'},
      {"batch", 1, nullptr, 'b'},  {"slow", 1, nullptr, 'w'}, {"patience", 1, nullptr, 'p'},
      {"die-at", 1, nullptr, 'k'}, {"help", 0, nullptr, 'h'}, {nullptr, 0, nullptr, 0}};
  Options options;
  bool good = true;
  const auto take = [&](int& into, int low) {
    const auto value = number(::optarg, low);
    into = value.value_or(into);
    good = good && value;
  };
  int slow = 0;
  int patience = 1'000;
  for (int found = 0; good && (found = ::getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    if (found == 'e')
      take(options.epochs, 1);
    else if (found == 'b')
      take(options.batch, 1);
    else if (found == 'w')
      take(slow, 0);
    else if (found == 'p')
      take(patience, 0);
    else if (found == 'd')
      options.data = ::optarg;
    else if (found == 's')
      options.snapshot = ::optarg;
    else if (found == 'k')
      good = (options.die_at = parse_death(::optarg)).has_value();
    else
      good = false;
  }
  if (!good || ::optind != argc) {
    std::fputs(kUsage, stderr);
    return std::nullopt;
  }
  options.slow = std::chrono::milliseconds(slow);
  options.patience = std::chrono::milliseconds(patience);
  if (options.data.empty()) options.data = default_data();
  return options;
}

[[noreturn]] void die(const Death& death) {
  std::fprintf(stderr, "rank %d: ending here, in the middle of epoch %d, as --die-at says: %s\n", death.rank,
               death.epoch, text(death.how).c_str());
  if (const auto* exited = std::get_if<Exited>(&death.how)) ::_exit(exited->code);
  const int signo = std::get<Signaled>(death.how).signo;
  std::signal(signo, SIG_DFL);
  ::kill(::getpid(), signo);
  ::_exit(70);  // a signal that does not end us
}

/// One rank's training run.
class Trainer {
 public:
  Trainer(const Options& options, const worker::Ranks& ranks, const Text& text, worker::GlooGroup& group)
      : options_(options),
        ranks_(ranks),
        text_(text),
        group_(group),
        model_(text.alphabet.size(), /*seed=*/1) {}

  std::optional<Stop> run() {
    if (auto stop = resume()) return stop;
    for (int epoch = epochs_done_ + 1; epoch <= options_.epochs; ++epoch) {
      if (auto stop = train_epoch(epoch)) return stop;
    }
    std::printf("rank %d: done, weights %016llx\n", ranks_.rank,
                static_cast<unsigned long long>(model_.checksum()));
    if (ranks_.rank == 0) {
      std::string written = model_.write(text_, "And God said", 140, /*seed=*/7);
      std::replace(written.begin(), written.end(), '\n', ' ');
      std::printf("rank 0: the model writes: %s\n", written.c_str());
    }
    return std::nullopt;
  }

 private:
  /// Rank 0 reads the snapshot and tells the others: they need not see its file system.
  std::optional<Stop> resume() {
    Snapshot snapshot;
    if (ranks_.rank == 0 && !options_.snapshot.empty()) {
      auto loaded = Snapshot::load(options_.snapshot);
      if (!loaded) return Stop{"SnapshotError", std::move(loaded).error()};
      snapshot = std::move(*loaded);
      if (snapshot.epochs_done > 0 && !model_.load(snapshot.state))
        return Stop{"SnapshotError",
                    plain_error("snapshot " + options_.snapshot + " is of another model or text")};
    }
    std::array<char, sizeof(int)> done{};
    std::memcpy(done.data(), &snapshot.epochs_done, done.size());
    if (auto sent = group_.broadcast(done, 0); !sent) return peer_gone(std::move(sent).error());
    std::memcpy(&epochs_done_, done.data(), done.size());
    std::string state = model_.save();
    if (auto sent = group_.broadcast(state, 0); !sent) return peer_gone(std::move(sent).error());
    if (!model_.load(state)) return Stop{"TrainError", plain_error("rank 0 has a model of another size")};
    if (ranks_.rank == 0 && epochs_done_ > 0)
      std::printf("rank 0: resuming from %s: %d of %d epochs are done\n", options_.snapshot.c_str(),
                  epochs_done_, options_.epochs);
    return std::nullopt;
  }

  /// A new order in every epoch, the same on all ranks and in every attempt.
  [[nodiscard]] std::vector<std::uint32_t> shuffled(int epoch) const {
    std::vector<std::uint32_t> order(text_.symbols.size() - CharModel::kContext);
    std::iota(order.begin(), order.end(), static_cast<std::uint32_t>(CharModel::kContext));
    examples::Dice dice(static_cast<std::uint64_t>(epoch));
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[dice.below(i + 1)]);
    return order;
  }

  std::optional<Stop> train_epoch(int epoch) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<std::uint32_t> order = shuffled(epoch);
    const auto batch = static_cast<std::size_t>(options_.batch);
    const std::size_t all = batch * static_cast<std::size_t>(ranks_.world_size);
    const std::size_t steps = order.size() / all;
    const bool dies = options_.die_at && ranks_.restart_count == 0 && ranks_.round == 0 &&
                      options_.die_at->epoch == epoch && options_.die_at->rank == ranks_.rank;
    double loss = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      if (dies && step == steps / 2) die(*options_.die_at);
      const std::size_t mine = step * all + batch * static_cast<std::size_t>(ranks_.rank);
      loss += model_.add_gradient(text_, std::span(order).subspan(mine, batch));
      for (float& g : model_.gradient()) g /= static_cast<float>(all);
      if (auto summed = group_.allreduce_sum(model_.gradient()); !summed)
        return peer_gone(std::move(summed).error());
      model_.step(0.006F);
      if (options_.slow > 0ms) ::poll(nullptr, 0, static_cast<int>(options_.slow.count()));
    }
    std::array<double, 1> total{loss};
    if (auto summed = group_.allreduce_sum(total); !summed) return peer_gone(std::move(summed).error());
    if (ranks_.rank != 0) return std::nullopt;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (auto stop = save(epoch)) return stop;  // first: an epoch that was reported is never trained again
    std::printf("rank 0: epoch %d of %d: loss %.4f (%.2f s)\n", epoch, options_.epochs,
                total[0] / static_cast<double>(steps * all), took.count());
    return std::nullopt;
  }

  std::optional<Stop> save(int epoch) const {
    if (options_.snapshot.empty()) return std::nullopt;
    auto saved = Snapshot{.epochs_done = epoch, .state = model_.save()}.save(options_.snapshot);
    if (!saved) return Stop{"SnapshotError", std::move(saved).error()};
    return std::nullopt;
  }

  const Options& options_;
  const worker::Ranks& ranks_;
  const Text& text_;
  worker::GlooGroup& group_;
  CharModel model_;
  int epochs_done_ = 0;
};

std::optional<Stop> run(const Options& options, const worker::Ranks& ranks) {
  auto text = Text::load(options.data);
  if (!text) return Stop{"DataError", std::move(text).error()};
  const std::size_t smallest =
      static_cast<std::size_t>(options.batch) * static_cast<std::size_t>(ranks.world_size);
  if (text->symbols.size() < smallest + CharModel::kContext)
    return Stop{"DataError", plain_error("text " + options.data + " is shorter than one batch of all ranks")};
  auto store = worker::connect_store(ranks);
  if (!store) return Stop{"StoreError", std::move(store).error()};
  auto group = worker::GlooGroup::connect(ranks, *store);
  if (!group) return peer_gone(std::move(group).error());
  return Trainer(options, ranks, *text, *group).run();
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whole lines, at once, also into a pipe
  const auto options = parse_options(argc, argv);
  if (!options) return 2;
  const auto ranks = worker::ranks_from_environment();
  if (!ranks) {
    std::fprintf(stderr, "train: %s\n", ranks.error().message.c_str());
    return 2;
  }
  std::printf("rank %d of %d: host %s, pid %d, attempt %lld\n", ranks->rank, ranks->world_size,
              host_name().c_str(), static_cast<int>(::getpid()), static_cast<long long>(ranks->round));
  const auto stop = run(*options, *ranks);
  if (!stop) return 0;
  std::fprintf(stderr, "rank %d: %s: %s\n", ranks->rank, stop->kind, stop->error.message.c_str());
  if (!stop->peer) {
    const auto written = worker::write_error_record(stop->kind, stop->error.message);
    if (!written) std::fprintf(stderr, "rank %d: %s\n", ranks->rank, written.error().message.c_str());
    return 1;
  }
  // The launcher of the rank that went away knows more than we do: it will stop us. Give it the time.
  ::poll(nullptr, 0, static_cast<int>(options->patience.count()));
  return 1;
}
