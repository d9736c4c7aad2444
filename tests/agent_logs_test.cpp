// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "agent/log_folder.hpp"
#include "agent/stream_plans.hpp"
#include "agent/voice.hpp"

namespace cxxrun::agent {
namespace {

using launcher::Sink;

TEST_CASE("prefix template: macros", "[agent]") {
  const PrefixFacts facts{"default", "1", "5", "node2", "2", "0", "8", "job"};
  struct Row {
    const char *pattern, *want;
  };
  const auto row = GENERATE(values<Row>({
      {"[rank${rank}]: ", "[rank5]: "},
      {"${hostname}:${rank}: ", "node2:5: "},
      {"[${role_name}${local_rank}]:", "[default1]:"},
      {"${node_rank}/${round}/${world_size}/${run_id}|", "2/0/8/job|"},
      {"$rank $local_rank|", "5 1|"},
      {"${unknown} $other ${rank", "${unknown} $other ${rank"},
      {"$$ $${rank} $", "$ ${rank} $"},
      {"plain", "plain"},
      {"", ""},
  }));
  INFO(row.pattern);
  CHECK(expanded_prefix(row.pattern, facts) == row.want);
}

struct Job {
  Config config;
  World world;
  std::string attempt = "/logs/attempt_0";
  explicit Job(int workers) {
    config.rendezvous.host_name = "node2.example";
    config.rendezvous.role = "default";
    config.rendezvous.local_world_size = workers;
    world.local_world_size = workers;
    world.base_rank = 4;
  }
  launcher::SpawnSpec spec(int local_rank) const {
    launcher::SpawnSpec out;
    out.local_rank = local_rank;
    out.rank = world.base_rank + local_rank;
    plan_streams(config, world, attempt, out);
    return out;
  }
};

TEST_CASE("streams: one worker is untouched, several have their rank", "[agent]") {
  const auto one = Job(1).spec(0);
  CHECK(one.out.sink == Sink::Inherit);
  CHECK(one.err.sink == Sink::Console);
  CHECK(one.err.keep_last_words);
  CHECK(one.err.prefix.empty());
  Job terminal(1);
  terminal.config.terminal = true;
  CHECK(terminal.spec(0).err.sink == Sink::Terminal);
  const auto several = Job(2).spec(1);
  CHECK(several.out.sink == Sink::Console);
  CHECK(several.out.prefix == "[rank5]: ");
  CHECK(several.err.prefix == "[rank5]: ");
  Job inherit(2);
  inherit.config.stderr_inherit = true;
  CHECK(inherit.spec(1).err.sink == Sink::Inherit);
}

TEST_CASE("streams: -r and -t, case 51 of torchrun's", "[agent]") {
  Job job(12);
  job.config.logs.redirects.by_rank = {{0, 1}, {1, 2}, {11, 3}};
  CHECK(job.spec(0).out.sink == Sink::File);
  CHECK(job.spec(0).out.file == "/logs/attempt_0/0/stdout.log");
  CHECK(job.spec(0).err.sink == Sink::Console);
  CHECK(job.spec(1).out.sink == Sink::Console);
  CHECK(job.spec(1).err.file == "/logs/attempt_0/1/stderr.log");
  CHECK(job.spec(1).err.keep_last_words);
  CHECK(job.spec(11).out.file == "/logs/attempt_0/11/stdout.log");
  CHECK(job.spec(2).out.file.empty());

  job.config.logs.tee.all = 3;  // wins over -r
  CHECK(job.spec(0).out.sink == Sink::Console);
  CHECK(job.spec(0).out.file == "/logs/attempt_0/0/stdout.log");
  CHECK(job.spec(0).out.prefix == "[default0]:");
  CHECK(job.spec(11).err.prefix == "[default11]:");
  job.config.logs.prefix_template = "${hostname}:${rank} ";
  CHECK(job.spec(1).out.prefix == "node2:5 ");

  job.attempt.clear();  // no folder: all goes to the console
  CHECK(job.spec(0).out.sink == Sink::Console);
  CHECK(job.spec(0).out.file.empty());
}

TEST_CASE("streams: filters of ranks, cases 53 and 54 of torchrun's", "[agent]") {
  Job job(2);
  job.config.logs.local_ranks_filter = std::vector{0};
  CHECK(job.spec(0).out.sink == Sink::Console);
  CHECK(job.spec(1).out.sink == Sink::Discard);
  CHECK(job.spec(1).err.sink == Sink::Discard);
  CHECK(job.spec(1).err.keep_last_words);  // the report still has them
  job.config.logs.tee.all = 3;
  CHECK(job.spec(1).out.sink == Sink::File);
  job.config.logs.ranks_filter = std::vector{5};  // both filters: nobody passes
  CHECK(job.spec(0).out.sink == Sink::File);
  job.config.logs.local_ranks_filter.reset();
  CHECK(job.spec(0).out.sink == Sink::File);
  CHECK(job.spec(1).out.sink == Sink::Console);
}

TEST_CASE("streams: copies of chosen lines only from tee'd streams that are shown", "[agent]") {
  Job job(2);
  job.config.logs.duplicate_stdout_filters = {"apple"};
  CHECK(job.spec(0).out.copies_file.empty());
  job.config.logs.tee.all = 1;
  CHECK(job.spec(0).out.copies_file == "/logs/attempt_0/filtered_stdout.log");
  CHECK(job.spec(0).err.copies_file.empty());
  job.config.logs.ranks_filter = std::vector{4};
  CHECK(job.spec(1).out.copies_file.empty());
}

TEST_CASE("streams: json says whose line it is", "[agent]") {
  Job job(1);
  job.config.logs.format = LogOptions::Format::Json;
  const auto spec = job.spec(0);
  CHECK(spec.out.sink == Sink::Console);
  CHECK(spec.out.json_fields ==
        "\"host\":\"node2.example\",\"rank\":4,\"local_rank\":0,\"round\":0,\"stream\":\"stdout\",");
}

TEST_CASE("run ids become file names", "[agent]") {
  CHECK(as_file_name("none") == "none");
  CHECK(as_file_name("team/job\n7") == "team_job_7");
  CHECK(as_file_name("../../etc") == ".._.._etc");
  CHECK(as_file_name(std::string(199, 'a') + "\xc3\xa9") == std::string(199, 'a'));
}

TEST_CASE("our own lines as json", "[agent]") {
  Config config;
  config.rendezvous.host_name = "a";
  CHECK(spoken(config, "cxxrun: x\n  y\n", 2) == "cxxrun: x\n  y\n");
  config.logs.format = LogOptions::Format::Json;
  const auto text = spoken(config, "cxxrun: x\n  y\n", 2);
  CHECK(text.find("\"host\":\"a\",\"rank\":null,\"local_rank\":null,\"round\":2,\"stream\":\"agent\","
                  "\"text\":\"x\"}\n") != std::string::npos);
  CHECK(text.find("\"text\":\"  y\"}\n") != std::string::npos);
  CHECK(spoken(config, "x\n", -1).find("\"round\":null") != std::string::npos);
}

}  // namespace
}  // namespace cxxrun::agent
