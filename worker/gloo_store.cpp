// SPDX-License-Identifier: Apache-2.0
#include "worker/gloo_store.hpp"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <utility>
#include <vector>

namespace cxxrun::worker {
namespace {

std::chrono::milliseconds ms(Duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration);
}

/// "rank 2" for the keys that Gloo's full mesh waits for, so that an error says who is missing.
std::string whose(const std::string& key) {
  const std::string rank = key.starts_with("rank_") ? key.substr(5) : key;
  const bool number = !rank.empty() && rank.find_first_not_of("0123456789") == std::string::npos;
  return number ? "rank " + rank + " did not come (key '" + key + "')" : "key '" + key + "'";
}

class StoreAdapter final : public gloo::rendezvous::Store {
 public:
  StoreAdapter(worker::Store& store, std::string prefix, Duration timeout)
      : store_(store), prefix_(std::move(prefix)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const auto done = store_.set(full(key), std::string_view(data.data(), data.size()));
    if (!done) fail(key, done.error());
  }

  // Gloo asks for other ranks' keys without waiting for them first: blocks until the key is there.
  std::vector<char> get(const std::string& key) override {
    const auto value = store_.get(full(key), timeout_);
    if (!value) fail(key, value.error());
    return {value->begin(), value->end()};
  }

  void wait(const std::vector<std::string>& keys) override { wait_for(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    wait_for(keys, timeout);
  }

 private:
  [[nodiscard]] std::string full(const std::string& key) const { return prefix_ + key; }

  // One by one under one deadline: the error can then name the key that is missing.
  void wait_for(const std::vector<std::string>& keys, Duration timeout) {
    const Time deadline = std::chrono::steady_clock::now() + timeout;
    for (const std::string& key : keys) {
      const auto there = store_.wait({full(key)}, deadline - std::chrono::steady_clock::now());
      if (!there) fail(key, there.error());
    }
  }

  [[noreturn]] static void fail(const std::string& key, const Error& error) {
    throw gloo::IoException(whose(key) + ": " + error.message);
  }

  worker::Store& store_;
  std::string prefix_;
  Duration timeout_;
};

/// Gloo writes to sockets without MSG_NOSIGNAL: the end of a peer would end this process. Its own thread is
/// made inside connect() and so never sees that signal; a caller's thread does not while this lives.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    sigset_t block;
    ::sigemptyset(&block);
    ::sigaddset(&block, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &block, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    sigset_t pipe;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    const timespec no_wait{};
    if (!was_pending_) ::sigtimedwait(&pipe, nullptr, &no_wait);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_{};
  bool was_pending_ = false;
};

/// Runs a piece of Gloo. Its misuse checks throw a type that is no gloo::Exception: every std::exception ends
/// here.
template <class Work>
Result<> guarded(const char* doing, Work work) {
  const NoPipeSignal no_pipe_signal;
  try {
    work();
    return kOk;
  } catch (const std::exception& exception) {
    return Error{std::make_error_code(std::errc::connection_aborted),
                 std::string(doing) + ": " + exception.what()};
  }
}

template <class T>
Result<> sum(const std::shared_ptr<gloo::Context>& context, std::span<T> values) {
  if (values.empty()) return kOk;
  return guarded("all-reduce", [&] {
    gloo::AllreduceOptions options(context);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        [](void* to, const void* a, const void* b, std::size_t n) { gloo::sum<T>(to, a, b, n); });
    gloo::allreduce(options);
  });
}

}  // namespace

std::unique_ptr<gloo::rendezvous::Store> gloo_store(Store& store, std::string prefix, Duration timeout) {
  return std::make_unique<StoreAdapter>(store, std::move(prefix), timeout);
}

GlooGroup::GlooGroup(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}
GlooGroup::GlooGroup(GlooGroup&&) noexcept = default;
GlooGroup& GlooGroup::operator=(GlooGroup&&) noexcept = default;
GlooGroup::~GlooGroup() = default;

Result<GlooGroup> GlooGroup::connect(const Ranks& ranks, Store& store, const GlooOptions& options) {
  std::string address = options.address;
  if (address.empty()) {
    // Gloo's own choice is the address of the host name, which may be 127.0.1.1 or not exist at all.
    auto own = local_address(ranks);
    if (!own) return std::move(own).error().context("gloo");
    address = std::move(*own);
  }
  std::shared_ptr<gloo::rendezvous::Context> context;
  auto connected = guarded("gloo", [&] {
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
    context = std::make_shared<gloo::rendezvous::Context>(ranks.rank, ranks.world_size);
    context->setTimeout(ms(options.timeout));
    const auto adapter = gloo_store(store, options.name + "/", options.timeout);
    context->connectFullMesh(*adapter, device);
  });
  if (!connected) return std::move(connected).error();
  return GlooGroup(std::move(context));
}

Result<> GlooGroup::allreduce_sum(std::span<float> values) { return sum(context_, values); }
Result<> GlooGroup::allreduce_sum(std::span<double> values) { return sum(context_, values); }

Result<> GlooGroup::broadcast(std::span<char> bytes, int root) {
  if (bytes.empty()) return kOk;
  return guarded("broadcast", [&] {
    gloo::BroadcastOptions options(context_);
    options.setOutput(bytes.data(), bytes.size());
    options.setRoot(root);
    gloo::broadcast(options);
  });
}

Result<> GlooGroup::barrier() {
  return guarded("barrier", [&] {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  });
}

}  // namespace cxxrun::worker
