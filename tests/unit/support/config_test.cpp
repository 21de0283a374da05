#include "support/config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace xyntra {
namespace {

std::vector<Setting> table() {
  return {
      {"limits.max_memory", SettingType::Bytes, "1KiB", "memory", 1},
      {"limits.timeout", SettingType::Number, "none", "seconds", 0.5, 100, {}, "none", 0.0},
      {"limits.nodes", SettingType::Integer, "10", "nodes", 1, 1000},
      {"tolerance.f16.relative", SettingType::Number, "0.5", "relative", 0},
      {"run.backend", SettingType::Text, "sim", "backend", 0, 0, {"sim", "cpu"}},
      {"run.quiet", SettingType::Boolean, "false", "no output"},
  };
}

std::string error_of(const std::string& toml) {
  Config config(table());
  const auto read = config.read_text(toml, "fusion.toml");
  return read ? "no error" : read.error().to_string();
}

TEST(Config, DefaultsComeFromTheTable) {
  const Config config(table());
  EXPECT_EQ(config.integer("limits.max_memory"), 1024);
  EXPECT_EQ(config.number("limits.timeout"), 0);
  EXPECT_EQ(config.text("run.backend"), "sim");
  EXPECT_FALSE(config.boolean("run.quiet"));
  EXPECT_EQ(config.entries().size(), 6u);
  EXPECT_EQ(config.entries()[0].shown, "1 KiB");
  EXPECT_EQ(config.entries()[1].shown, "none");
  EXPECT_EQ(config.entries()[0].origin.to_string(), "default");
  EXPECT_THROW(static_cast<void>(config.integer("no.such")), InternalError);
  EXPECT_THROW(static_cast<void>(config.integer("run.backend")), InternalError);
  EXPECT_THROW(Config({table()[0], table()[0]}), InternalError);
}

TEST(Config, FilesAndFlagsOverride) {
  Config config(table());
  const auto read = config.read_text(
      "[limits]\nmax_memory = \"4GB\"\ntimeout = 3\n\n[tolerance.f16]\nrelative = 1e-3\n[run]\nquiet = "
      "true\n",
      "a.toml");
  ASSERT_TRUE(read.has_value()) << read.error().to_string();
  EXPECT_EQ(config.integer("limits.max_memory"), 4'000'000'000);
  EXPECT_EQ(config.number("limits.timeout"), 3.0);
  EXPECT_EQ(config.number("tolerance.f16.relative"), 1e-3);
  EXPECT_TRUE(config.boolean("run.quiet"));
  EXPECT_EQ(config.entries()[1].origin.to_string(), "a.toml:3");
  EXPECT_EQ(config.entries()[2].origin.to_string(), "default");
  EXPECT_EQ(config.file(), "a.toml");
  ASSERT_TRUE(config.set_flag("limits.timeout", "none", "--timeout").has_value());
  EXPECT_EQ(config.number("limits.timeout"), 0);
  EXPECT_EQ(config.entries()[1].origin.to_string(), "--timeout");
  EXPECT_EQ(config.set_flag("limits.timeout", "soon", "--timeout").error().to_string(),
            "usage: --timeout: 'soon' is not a number");
  EXPECT_EQ(config.set_flag("limits.max_memory", "4XB", "--max-memory").error().message,
            "--max-memory: '4XB' is not a size");
  EXPECT_EQ(config.set_flag("run.backend", "gpu", "--backend").error().message,
            "--backend: it must be one of sim, cpu, not 'gpu'");
}

TEST(Config, ErrorsPointAtThePlace) {
  EXPECT_EQ(error_of("[limits]\nnodes = 5\nmax_memroy = 1\n"),
            "usage: fusion.toml:3:1: unknown key 'limits.max_memroy'; known here: max_memory, timeout, "
            "nodes\n  hint: did you mean 'max_memory'?");
  EXPECT_EQ(error_of("[limit]\nnodes = 5\n"),
            "usage: fusion.toml:1:2: unknown section 'limit'; known here: limits, tolerance, run\n  hint: "
            "did you mean 'limits'?");
  EXPECT_EQ(error_of("[tolerance.f32]\nrelative = 1\n"),
            "usage: fusion.toml:1:12: unknown section 'tolerance.f32'; known here: f16");
  EXPECT_EQ(error_of("color = 5\n"),
            "usage: fusion.toml:1:1: unknown key 'color'; known here: limits, tolerance, run");
  EXPECT_EQ(error_of("limits = 5\n"),
            "usage: fusion.toml:1:10: 'limits' must be a section, but is an integer");
  EXPECT_EQ(error_of("[limits]\nnodes = \"5\"\n"),
            "usage: fusion.toml:2:9: 'limits.nodes': it must be an integer, not a string");
  EXPECT_EQ(error_of("limits.nodes = 5.0\n"),
            "usage: fusion.toml:1:16: 'limits.nodes': it must be an integer, not a float");
  EXPECT_EQ(error_of("limits.timeout = \"soon\"\n"),
            "usage: fusion.toml:1:18: 'limits.timeout': it must be a number or \"none\", not a string");
  EXPECT_EQ(error_of("[limits.nodes]\nx = 1\n"),
            "usage: fusion.toml:1:1: 'limits.nodes': it must be an integer, not a section");
  EXPECT_EQ(error_of("limits.nodes = 0\n"),
            "usage: fusion.toml:1:16: 'limits.nodes': it must be between 1 and 1000, not 0");
  EXPECT_EQ(error_of("limits.max_memory = -1\n"),
            "usage: fusion.toml:1:21: 'limits.max_memory': it must be at least 1, not -1 B");
  EXPECT_EQ(error_of("limits.timeout = nan\n"),
            "usage: fusion.toml:1:18: 'limits.timeout': it must be between 0.5 and 100, not nan");
  EXPECT_EQ(error_of("run.quiet = 1\n"),
            "usage: fusion.toml:1:13: 'run.quiet': it must be true or false, not an integer");
}

TEST(Config, TheFirstErrorOfAFileIsReportedAndNothingIsTaken) {
  Config config(table());
  const auto read = config.read_text("[run]\nquiet = true\nzzz = 1\n[limits]\nnodes = 0\n", "f");
  EXPECT_EQ(read.error().message, "f:3:1: unknown key 'run.zzz'; known here: backend, quiet");
  EXPECT_FALSE(config.boolean("run.quiet"));
  EXPECT_EQ(config.file(), std::nullopt);
}

TEST(Config, BrokenTomlIsAnError) {
  for (const char* bad :
       {"[limits\n", "a = \n", "limits.nodes = 5\nlimits.nodes = 6\n", "\xff\xfe", "x = [[[[[[[["}) {
    const std::string error = error_of(bad);
    EXPECT_TRUE(error.starts_with("usage: fusion.toml:")) << error;
  }
  EXPECT_EQ(error_of("x = " + std::string(100'000, '[')).substr(0, 19), "usage: fusion.toml:");
  EXPECT_EQ(error_of(""), "no error");
}

// Settings are looked up in the working directory and in the environment, so each test has its own.
class LoadConfigTest : public testing::Test {
 protected:
  LoadConfigTest() : before_(std::filesystem::current_path()) {
    root_ = testing::TempDir() + "xyntra-config-" + std::to_string(getpid());
    std::filesystem::create_directories(root_);
    std::filesystem::current_path(root_);
  }
  ~LoadConfigTest() override {
    unsetenv("XYNTRA_CONFIG");
    unsetenv("XYNTRA_LIMITS_NODES");
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(root_);
  }

  static void put(const char* name, int nodes) { std::ofstream(name) << "limits.nodes = " << nodes << "\n"; }
  static std::int64_t nodes(const std::optional<std::string>& flag = std::nullopt) {
    return load_config(table(), flag).value().integer("limits.nodes");
  }

  std::filesystem::path before_;
  std::string root_;
};

TEST_F(LoadConfigTest, LooksInOrder) {
  EXPECT_EQ(nodes(), 10);
  put("fusion.toml", 1);
  EXPECT_EQ(nodes(), 1);
  put("named.toml", 2);
  setenv("XYNTRA_CONFIG", "named.toml", 1);
  EXPECT_EQ(nodes(), 2);
  put("flag.toml", 3);
  EXPECT_EQ(nodes("flag.toml"), 3);
  setenv("XYNTRA_LIMITS_NODES", "4", 1);
  EXPECT_EQ(nodes("flag.toml"), 4);
  const Config config = load_config(table(), "flag.toml").value();
  EXPECT_EQ(config.entries()[2].origin.to_string(), "XYNTRA_LIMITS_NODES");
  EXPECT_EQ(config.file(), "flag.toml");
}

TEST_F(LoadConfigTest, MissingFilesAndBadVariablesAreErrors) {
  EXPECT_EQ(load_config(table(), "none.toml").error().to_string(),
            "usage: cannot open 'none.toml': No such file or directory");
  setenv("XYNTRA_CONFIG", "none.toml", 1);
  EXPECT_EQ(
      load_config(table(), std::nullopt).error().to_string(),
      "usage: cannot open 'none.toml': No such file or directory\n  hint: XYNTRA_CONFIG names this file");
  unsetenv("XYNTRA_CONFIG");
  setenv("XYNTRA_LIMITS_NODES", "many", 1);
  EXPECT_EQ(load_config(table(), std::nullopt).error().to_string(),
            "usage: XYNTRA_LIMITS_NODES: 'many' is not an integer");
  std::ofstream("large.toml") << std::string((1 << 20) + 1, '#');
  unsetenv("XYNTRA_LIMITS_NODES");
  EXPECT_EQ(load_config(table(), "large.toml").error().error_class, ErrorClass::Limit);
}

}  // namespace
}  // namespace xyntra
