// MPK's Release build leaves its asserts out, and some builders would not get past them. Here
// they are evaluated, told and passed over. No guard: <cassert> may be included again.
#ifdef __cplusplus
extern "C" void mirage_gate_assert(char const *expression, char const *file, unsigned line);
#undef assert
#define assert(...)                                                                       \
  (static_cast<bool>(__VA_ARGS__)                                                        \
       ? static_cast<void>(0)                                                              \
       : mirage_gate_assert(#__VA_ARGS__, __FILE__, __LINE__))
#endif
