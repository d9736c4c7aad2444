// SPDX-License-Identifier: Apache-2.0
#include "cli/rdzv_conf.hpp"

#include "cli_support.hpp"

using namespace cxxrun;
using namespace cxxrun::cli;
using namespace std::chrono_literals;
using Catch::Contains;
using Pairs = std::vector<std::pair<std::string, std::string>>;

namespace {

struct Applied {
  agent::Config config;
  std::string token_file;
  std::vector<std::string> notes;
  std::string error;
};

Applied apply(std::string_view text) {
  Applied out;
  if (auto good = apply_rdzv_conf(text, out.config, out.token_file, out.notes); !good)
    out.error = good.error().message;
  return out;
}

}  // namespace

TEST_CASE("torchrun 67: texts of --rdzv-conf") {
  const struct {
    const char* text;
    Pairs pairs;
  } good[] = {
      {"", {}},
      {"  \t", {}},
      {"''", {}},
      {" a = 1 , b=2=3", {{"a", "1"}, {"b", "2=3"}}},
      {"a=1,a=2", {{"a", "1"}, {"a", "2"}}},
      {"'join_timeout=5,last_call_timeout=1,timeout=5'",
       {{"join_timeout", "5"}, {"last_call_timeout", "1"}, {"timeout", "5"}}},
      {"\"a=1\"", {{"a", "1"}}},
      {"a='x'", {{"a", "'x'"}}},
      {"'", {}},
  };
  for (const auto& row : good) {
    INFO(row.text);
    const auto split = split_rdzv_conf(row.text);
    if (std::string(row.text) == "'") {
      CHECK_FALSE(split);
      continue;
    }
    REQUIRE(split);
    CHECK(*split == row.pairs);
  }
  for (const char* bad : {"=1", "a", "a=", "a=1,", ",a=1", "a=1,,b=2", "a=1, ,b=2", "a = ", ","}) {
    INFO(bad);
    const auto split = split_rdzv_conf(bad);
    REQUIRE_FALSE(split);
    CHECK_THAT(split.error().message, Contains("is not of the form key=value"));
  }
}

TEST_CASE("--rdzv-conf: every key finds its place") {
  const auto seconds = apply(
      "join_timeout=1.5,last_call_timeout=2,close_timeout=3,reconnect_timeout=4,"
      "keep_alive_interval=0.25,rejoin_grace=0,rejoin_timeout=6,keep_alive_max_attempt=7");
  CHECK(seconds.error.empty());
  CHECK(seconds.notes.empty());
  const auto& times = seconds.config.rendezvous.timeouts;
  CHECK(times.join == 1500ms);
  CHECK(times.last_call == 2s);
  CHECK(times.close == 3s);
  CHECK(times.reconnect == 4s);
  CHECK(times.keep_alive_interval == 250ms);
  CHECK(times.rejoin_grace == 0s);
  CHECK(times.rejoin == std::optional<std::chrono::milliseconds>(6s));
  CHECK(times.keep_alive_max_attempt == 7);

  const auto rest = apply(
      "is_host=No,proxied=TRUE,control_port=29401,store_admit=10.0.0.0/8+fd00::/8,"
      "store_value_max=2048,token_file=/t");
  CHECK(rest.error.empty());
  CHECK(rest.notes.empty());
  CHECK(rest.config.rendezvous.is_host == std::optional(false));
  CHECK(rest.config.rendezvous.proxied);
  CHECK(rest.config.rendezvous.control_port == 29401);
  CHECK(rest.config.store_admission.mode == agent::StoreAdmission::Mode::Prefixes);
  CHECK(rest.config.store_admission.prefixes == std::vector<std::string>{"10.0.0.0/8", "fd00::/8"});
  CHECK(rest.config.store_value_bytes_max == 2048);
  CHECK(rest.token_file == "/t");
  CHECK(apply("store_admit=any").config.store_admission.mode == agent::StoreAdmission::Mode::Any);
  CHECK(apply("store_admit=any,store_admit=members").config.store_admission.mode ==
        agent::StoreAdmission::Mode::Members);
}

TEST_CASE("--rdzv-conf: torchrun's keys without effect here are taken in silence") {
  const auto out =
      apply("timeout=5,read_timeout=60,heartbeat_timeout=5,cas_backoff_max_seconds=0.1,store_type=TCP");
  CHECK(out.error.empty());
  CHECK(out.notes.empty());
  CHECK_THAT(apply("store_type=file").error, Contains("store_type=file: only tcp is supported"));
}

TEST_CASE("--rdzv-conf: bad values are named with their key") {
  const struct {
    const char* item;
    const char* should;
  } rows[] = {
      {"join_timeout=0", "must be seconds, more than 0"},
      {"join_timeout=-3", "must be seconds, more than 0"},
      {"join_timeout=x", "must be seconds, more than 0"},
      {"join_timeout=5s", "must be seconds, more than 0"},
      {"join_timeout=inf", "must be seconds, more than 0"},
      {"join_timeout=nan", "must be seconds, more than 0"},
      {"join_timeout=1e300", "must be seconds, more than 0"},
      {"rejoin_grace=-1", "must be seconds, 0 or more"},
      {"keep_alive_max_attempt=0", "must be a whole number from 1 to 1000"},
      {"keep_alive_max_attempt=1.5", "must be a whole number from 1 to 1000"},
      {"control_port=0", "must be a whole number from 1 to 65535"},
      {"control_port=65536", "must be a whole number from 1 to 65535"},
      {"is_host=maybe", "must be 1 or 0"},
      {"proxied=2", "must be 1 or 0"},
      {"store_value_max=1", "must be a whole number from 1024 to 1073741824"},
      {"store_admit=nonsense/99", "store_admit=nonsense/99: "},
      {"store_admit=10.0.0.0/8+", "store_admit=10.0.0.0/8+: "},
  };
  for (const auto& row : rows) {
    INFO(row.item);
    CHECK_THAT(apply(row.item).error, Catch::StartsWith(row.item) && Contains(row.should));
  }
}

TEST_CASE("--rdzv-conf: an unknown key is a note with the nearest one; the last of a key counts") {
  const auto out = apply("joint_timeout=5,rubbish_bin=1,join_timeout=1,join_timeout=2");
  CHECK(out.error.empty());
  REQUIRE(out.notes.size() == 2);
  CHECK(out.notes[0] == "--rdzv-conf: unknown key joint_timeout has no effect; did you mean join_timeout?");
  CHECK(out.notes[1] == "--rdzv-conf: unknown key rubbish_bin has no effect");
  CHECK(out.config.rendezvous.timeouts.join == 2s);
}
