// What went wrong, said so that a user can act on it: a class that decides the exit code, one sentence,
// the place (file, node, op), and a hint where there is one.
#pragma once

#include <string>
#include <utility>

namespace xyntra {

enum class ErrorClass {
  Usage,        // the call itself is wrong: a flag, a shape, a missing input
  BadModel,     // the file is malformed or contradicts itself
  Unsupported,  // valid, but we do not do it (yet)
  Limit,        // memory, time, size or cancellation
  Device,       // a device or driver failed
  Internal,     // a bug of ours
};

const char* name_of(ErrorClass error_class);

struct Error {
  ErrorClass error_class = ErrorClass::Internal;
  std::string message;
  std::string file;  // model file, when known
  std::string node;  // the model's own name of the node
  std::string op;    // operator type
  std::string hint;
  bool fatal = false;  // a fatal error leaves the object it came from unusable

  Error in_file(std::string value) && {
    if (file.empty()) file = std::move(value);
    return std::move(*this);
  }
  Error at_node(std::string node_name, std::string op_name) && {
    if (op.empty()) {
      node = std::move(node_name);
      op = std::move(op_name);
    }
    return std::move(*this);
  }
  Error with_hint(std::string value) && {
    hint = std::move(value);
    return std::move(*this);
  }

  // `bad model: model.onnx: node 'n1' (Add): inputs 0 and 1 differ in dtype`; control characters escaped.
  std::string to_string() const;
  // "message (hint)", of one that is part of a report.
  std::string with_its_hint() const { return message + (hint.empty() ? "" : " (" + hint + ")"); }
};

// A broken invariant of ours. It is turned into an Error of class Internal at the API's edge.
class InternalError {
 public:
  explicit InternalError(std::string message) : message_(std::move(message)) {}
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

}  // namespace xyntra
