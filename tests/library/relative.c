/* Opens the library by a path that is relative, goes to another folder, and compiles a model: the library must find its code
 * generator all the same. usage: relative LIBRARY FOLDER MODEL */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
#include <xyntra/xyntra.h>

typedef xyntra_status (*load_function)(const char*, const xyntra_options*, xyntra_model**);
typedef const char* (*message_function)(void);

int main(int argc, char** argv) {
  void* library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (library == NULL || chdir(argv[2]) != 0) return 2;
  load_function load = (load_function)dlsym(library, "xyntra_load");
  message_function message = (message_function)dlsym(library, "xyntra_last_message");
  xyntra_options options = {.size = sizeof options, .backend = "cpu"};
  xyntra_model* model = NULL;
  if (load(argv[3], &options, &model) != XYNTRA_OK) {
    puts(message());
    return 1;
  }
  puts("loaded");
  return 0;
}
