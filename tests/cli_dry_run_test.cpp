// SPDX-License-Identifier: Apache-2.0
#include "cli/dry_run.hpp"

#include "cli_support.hpp"

using namespace cxxrun;
using namespace cxxrun::cli;
using namespace cxxrun::cli::test;
using Catch::Contains;

namespace {

std::string described(Words words, const Variables& variables, bool json,
                      const std::vector<std::string>& environment = {}) {
  words.emplace_back("./train");
  auto made = good_plan(plan_with(words, machine(variables)));
  made.config.program = {
      "/bin/train", {"./train", "a\"b\\\n\x1b", "\xff\xc2\x9b\xc3\xa4", "${local_rank}"}, false, "./train"};
  made.config.environment = environment;
  return describe_plan(options(words, variables), made, json);
}

}  // namespace

TEST_CASE("dry run: text names value and origin, the unknown is a question mark") {
  const std::string text =
      described({"--nnodes=2", "--nproc-per-node=auto"}, {{"MASTER_ADDR", "m"}, {"PET_ROLE", "r s"}}, false,
                {"PET_ROLE=r s", "A=1"});
  CHECK_THAT(text,
             Contains("--nproc-per-node         8                              --nproc-per-node auto\n"));
  CHECK_THAT(text, Contains("--role                   'r s'                          variable PET_ROLE\n"));
  CHECK_THAT(text, Contains("--rdzv-endpoint          m:29400                        MASTER_ADDR\n"));
  CHECK_THAT(text, Contains("--max-restarts           0                              default\n"));
  CHECK_THAT(text, Contains("worker 7:\n  rank         ?\n"));
  CHECK_THAT(text, Contains("  set          WORLD_SIZE=?\n") && Contains("  set          LOCAL_RANK=7\n"));
  CHECK_THAT(text, Contains("  removed      PET_ROLE\n") && !Contains("A=1"));
  CHECK_THAT(text, Contains("  stdout       'console, each line behind the rank'\n"));
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("dry run: one node knows its ranks, static its master") {
  CHECK_THAT(described({"--nproc-per-node=2"}, {}, false),
             Contains("set          RANK=1\n") && Contains("set          MASTER_PORT=?\n"));
  CHECK_THAT(described({"--nnodes=2", "--node-rank=1", "--master-addr=h"}, {}, false),
             Contains("set          MASTER_ADDR=h\n") && Contains("set          MASTER_PORT=29500\n") &&
                 Contains("RANK=?\n"));
}

TEST_CASE("dry run: JSON keeps any text whole, and bytes that are none do not break it") {
  const std::string json = described({}, {{"CXXRUN_TOKEN", "s3cret"}}, true, {"CXXRUN_TOKEN=s3cret"});
  CHECK_THAT(json, Contains(R"("a\"b\\\u000a\u001b")"));
  CHECK_THAT(json, Contains("\"\xef\xbf\xbd") && Contains("\\u009b\xc3\xa4\"") && Contains("\"0\""));
  CHECK_THAT(json, Contains("\"MASTER_PORT\": null") && Contains("\"removed\": [") && !Contains("s3cret"));
}

TEST_CASE("dry run: what it may be") {
  CHECK(plan({}).dry_run == DryRun::No);
  CHECK(plan({"--dry-run"}).dry_run == DryRun::Text);
  CHECK(plan({"--dry-run=text"}).dry_run == DryRun::Text);
  CHECK(plan({"--dry-run=json"}).dry_run == DryRun::Json);
  CHECK_THAT(plan_error({"--dry-run=xml"}), Contains("must be text or json"));
}
