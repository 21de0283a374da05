#include "support/files/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "support/files/file_descriptor.h"

namespace xyntra {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() : root_(testing::TempDir() + "xyntra-file-" + std::to_string(getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_ + "/model/sub");
    put("/secret", "secret");
    put("/model/weights.bin", "weights");
    put("/model/sub/more.bin", "more");
  }
  ~FileTest() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const { std::ofstream(root_ + path) << text; }
  std::string content(const std::string& path) const {
    const auto file = MappedFile::open(root_ + path);
    return file ? std::string((*file)->text()) : "error: " + file.error().message;
  }
  std::string beneath(const std::string& path) const {
    const auto file = MappedFile::open_beneath(root_ + "/model", path);
    if (file) return std::string((*file)->text());
    EXPECT_EQ(file.error().error_class, ErrorClass::BadModel);
    return file.error().message;
  }
  std::size_t entries(const std::string& path) const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(root_ + path), fs::directory_iterator()));
  }

  std::string root_;
};

TEST_F(FileTest, OpensRegularFilesOnly) {
  EXPECT_EQ(content("/secret"), "secret");
  put("/empty", "");
  EXPECT_EQ(content("/empty"), "");
  EXPECT_EQ(MappedFile::open(root_ + "/none").error().message,
            "cannot open '" + root_ + "/none': No such file or directory");
  EXPECT_EQ(MappedFile::open(root_).error().message, "cannot open '" + root_ + "': it is a folder");
  EXPECT_EQ(MappedFile::open("/dev/null").error().message,
            "cannot open '/dev/null': it is not a regular file");
  ASSERT_EQ(mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(content("/pipe"), "error: cannot open '" + root_ + "/pipe': it is not a regular file");
}

TEST_F(FileTest, LargeFilesAreMapped) {
  const std::string text(3 << 20, 'x');
  put("/large", text);
  const auto file = MappedFile::open(root_ + "/large").value();
  fs::remove(root_ + "/large");  // the mapping keeps it alive
  EXPECT_EQ(file->text(), text);
  file->release_pages();
  EXPECT_EQ(file->bytes().back(), std::byte{'x'});
}

TEST_F(FileTest, PartsAreChecked) {
  const auto file = MappedFile::open(root_ + "/secret").value();
  EXPECT_EQ(file->part(2, 3).value().size(), 3u);
  EXPECT_EQ(file->part(6, 0).value().size(), 0u);
  EXPECT_FALSE(file->part(7, 0).has_value());
  EXPECT_FALSE(file->part(2, 5).has_value());
  EXPECT_EQ(file->part(UINT64_MAX, UINT64_MAX).error().error_class, ErrorClass::BadModel);
}

TEST_F(FileTest, BeneathOpensWhatIsBeneath) {
  EXPECT_EQ(beneath("weights.bin"), "weights");
  EXPECT_EQ(beneath("sub/more.bin"), "more");
  EXPECT_EQ(beneath("./sub//more.bin"), "more");
  fs::create_symlink("sub/more.bin", root_ + "/model/inside");
  EXPECT_EQ(beneath("inside"), "more");
}

TEST_F(FileTest, BeneathRefusesWhatIsNot) {
  EXPECT_EQ(beneath(""), "cannot open '': the path is empty");
  EXPECT_EQ(beneath("/etc/passwd"), "cannot open '/etc/passwd': the path is absolute");
  EXPECT_EQ(beneath("../secret"), "cannot open '../secret': the path contains '..'");
  EXPECT_EQ(beneath("sub/../weights.bin"), "cannot open 'sub/../weights.bin': the path contains '..'");
  EXPECT_EQ(beneath(std::string("a\0b", 3)),
            "cannot open '" + std::string("a\0b", 3) + "': the path contains a NUL byte");
  EXPECT_EQ(beneath("none"), "cannot open 'none': No such file or directory");
  EXPECT_EQ(beneath("sub"), "cannot open '" + root_ + "/model/sub': it is a folder");

  const std::string left = ": a symbolic link leads out of the model's folder";
  fs::create_symlink("../secret", root_ + "/model/relative");
  EXPECT_EQ(beneath("relative"), "cannot open 'relative'" + left);
  fs::create_symlink(root_ + "/secret", root_ + "/model/absolute");
  EXPECT_EQ(beneath("absolute"), "cannot open 'absolute'" + left);
  fs::create_directory_symlink("..", root_ + "/model/up");
  EXPECT_EQ(beneath("up/secret"), "cannot open 'up/secret'" + left);
  fs::create_symlink("loop", root_ + "/model/loop");
  EXPECT_EQ(beneath("loop"), "cannot open 'loop'" + left);
  fs::create_hard_link(root_ + "/secret", root_ + "/model/hard");
  EXPECT_EQ(beneath("hard"), "cannot open 'hard': the file has several hard links");
}

TEST_F(FileTest, TheWalkWithoutOpenat2DoesTheSame) {
  fs::create_directories(root_ + "/model/sub/deep");
  fs::create_symlink("sub/more.bin", root_ + "/model/inside");
  fs::create_symlink("inside", root_ + "/model/twice");
  fs::create_symlink("../../weights.bin", root_ + "/model/sub/deep/back");
  fs::create_symlink("../../../secret", root_ + "/model/sub/deep/out");
  fs::create_directory_symlink("sub/", root_ + "/model/folder");
  fs::create_directory_symlink("..", root_ + "/model/up");
  fs::create_symlink(root_ + "/model/weights.bin", root_ + "/model/absolute");
  fs::create_symlink("loop", root_ + "/model/loop");
  fs::create_symlink("none", root_ + "/model/dangling");
  const FileDescriptor folder(open((root_ + "/model").c_str(), O_RDONLY | O_DIRECTORY));
  const auto walked = [&](const std::string& path) {
    const FileDescriptor found(open_beneath_by_walking(folder.get(), path));
    if (!found.valid()) return errno;
    struct stat by_walk = {}, by_name = {};
    EXPECT_EQ(fstat(found.get(), &by_walk), 0);
    EXPECT_EQ(stat((root_ + "/model/" + path).c_str(), &by_name), 0);
    EXPECT_EQ(by_walk.st_ino, by_name.st_ino) << path;
    return 0;
  };
  for (const char* path : {"weights.bin", "./sub//more.bin", "inside", "twice", "folder/more.bin", "folder",
                           "sub/", "sub/.", "sub/deep/back", "folder/deep/back"}) {
    EXPECT_EQ(walked(path), 0) << path;
  }
  for (const char* path : {"up", "up/secret", "absolute", "sub/deep/out", "folder/deep/out"}) {
    EXPECT_EQ(walked(path), EXDEV) << path;
  }
  EXPECT_EQ(walked("loop"), ELOOP);
  EXPECT_EQ(walked("loop/more.bin"), ELOOP);
  EXPECT_EQ(walked("none"), ENOENT);
  EXPECT_EQ(walked("none/more.bin"), ENOENT);
  EXPECT_EQ(walked("dangling"), ENOENT);
  EXPECT_EQ(walked("weights.bin/"), ENOTDIR);
  EXPECT_EQ(walked("weights.bin/more"), ENOTDIR);
}

TEST_F(FileTest, WritesAtomically) {
  ASSERT_TRUE(write_file_atomically(root_ + "/new", "first").has_value());
  EXPECT_EQ(content("/new"), "first");
  chmod((root_ + "/new").c_str(), 0640);
  ASSERT_TRUE(write_file_atomically(root_ + "/new", "second").has_value());
  EXPECT_EQ(content("/new"), "second");
  struct stat status = {};
  stat((root_ + "/new").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  fs::create_symlink("new", root_ + "/link");
  ASSERT_TRUE(write_file_atomically(root_ + "/link", "third").has_value());
  EXPECT_TRUE(fs::is_symlink(root_ + "/link"));
  EXPECT_EQ(content("/new"), "third");
  EXPECT_EQ(entries(""), 4u);  // model, secret, new, link: no temporary file is left
  EXPECT_TRUE(write_file_atomically("/dev/null", "gone").has_value());
  const auto mapped = MappedFile::open(root_ + "/new").value();
  ASSERT_TRUE(write_file_atomically(root_ + "/new", "fourth").has_value());
  EXPECT_EQ(mapped->text(), "third");  // readers keep what they opened
}

TEST_F(FileTest, WritesPartsInAnyOrder) {
  const auto backwards = [](const WriteAt& write_at) -> Status {
    XYNTRA_CHECK_OK(write_at(5, std::as_bytes(std::span(std::string_view("text")))));
    return write_at(0, std::as_bytes(std::span(std::string_view("some "))));
  };
  ASSERT_TRUE(write_file_atomically(root_ + "/new", 9, backwards).has_value());
  EXPECT_EQ(content("/new"), "some text");
  EXPECT_TRUE(write_file_atomically("/dev/null", 9, backwards).has_value());
  EXPECT_EQ(write_file_atomically("/dev/full", 9, backwards).error().error_class, ErrorClass::Limit);
  const auto fails = [&](const WriteAt& write_at) -> Status {
    XYNTRA_CHECK_OK(backwards(write_at));
    return usage_error("no more");
  };
  EXPECT_EQ(write_file_atomically(root_ + "/secret", 9, fails).error().message, "no more");
  EXPECT_EQ(content("/secret"), "secret");
  EXPECT_EQ(entries(""), 3u);  // model, secret, new
}

TEST_F(FileTest, FailedWritesLeaveEverythingAsItWas) {
  EXPECT_EQ(write_file_atomically(root_, "x").error().message,
            "cannot write '" + root_ + "': Is a directory");
  EXPECT_EQ(write_file_atomically(root_ + "/no/file", "x").error().error_class, ErrorClass::Usage);
  EXPECT_EQ(write_file_atomically("/dev/full", "x").error().to_string(),
            "limit: cannot write '/dev/full': No space left on device");

  // A file size limit stands in for a full disk: the write fails in the middle.
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto written = write_file_atomically(root_ + "/secret", std::string(5000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(written.error().error_class, ErrorClass::Limit);
  EXPECT_EQ(content("/secret"), "secret");
  EXPECT_EQ(entries(""), 2u);
}

TEST(File, FolderOfAPath) {
  EXPECT_EQ(folder_of("a/b.onnx"), "a");
  EXPECT_EQ(folder_of("b.onnx"), ".");
  EXPECT_EQ(folder_of("/b.onnx"), "/");
  EXPECT_EQ(folder_of("/a/b/c"), "/a/b");
}

}  // namespace
}  // namespace xyntra
