extern "C" int xyntra_command(int argc, char** argv);

int main(int argc, char** argv) { return xyntra_command(argc, argv); }
