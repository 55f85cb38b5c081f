// Reads arrays from .npy files, calls the function, and writes its results as .npy files.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tensor {
  const char *name;
  const char *kind; // as the descr of a .npy file says it, without the byte order
  size_t item;
  size_t rank;
  const size_t *sizes;
};

/* TENSORS */

enum { ALIGNMENT = 64, LONGEST_HEADER = 1 << 16 };

static void fail(const char *file, const char *message) {
  fprintf(stderr, "%s: %s\n", file, message);
  exit(EXIT_FAILURE);
}

static size_t bytes_of(const struct tensor *tensor) {
  size_t bytes = tensor->item;
  for (size_t axis = 0; axis < tensor->rank; ++axis) bytes *= tensor->sizes[axis];
  return bytes;
}

static void *reserve(size_t bytes) {
  void *memory = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
  if (memory == NULL) fail("memory", "there is not enough");
  return memory;
}

static char byte_order(const struct tensor *tensor) {
  const uint16_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return tensor->item == 1 || tensor->kind[0] == 'V' ? '|' : first == 1 ? '<' : '>';
}

// Return what follows a key of the header, behind blanks.
static const char *entry(const char *file, const char *header, const char *key) {
  const char *found = strstr(header, key);
  if (found == NULL) fail(file, "the header of this .npy file is broken");
  found += strlen(key);
  return found + strspn(found, " ");
}

static void print_type(FILE *out, const struct tensor *tensor) {
  fprintf(out, "%s of kind %s and shape (", tensor->name, tensor->kind);
  for (size_t axis = 0; axis < tensor->rank; ++axis) {
    fprintf(out, "%s%llu", axis == 0 ? "" : ", ", (unsigned long long)tensor->sizes[axis]);
  }
  fprintf(out, ")\n");
}

static void mismatch(const char *file, const struct tensor *tensor, const char *what) {
  fprintf(stderr, "%s: %s; pass an array for ", file, what);
  print_type(stderr, tensor);
  exit(EXIT_FAILURE);
}

static void check_header(const char *file, const char *header, const struct tensor *tensor) {
  const char *descr = entry(file, header, "'descr':");
  const size_t length = strlen(tensor->kind);
  if (descr[0] != '\'' || descr[1] == '\0' || strncmp(descr + 2, tensor->kind, length) != 0 || descr[2 + length] != '\'') {
    mismatch(file, tensor, "the elements are of another kind");
  }
  if (descr[1] != byte_order(tensor) && descr[1] != '=' && byte_order(tensor) != '|') {
    mismatch(file, tensor, "the elements are in another byte order");
  }
  if (strncmp(entry(file, header, "'fortran_order':"), "False", 5) != 0) {
    mismatch(file, tensor, "the array is stored by columns");
  }
  const char *place = entry(file, header, "'shape':");
  if (*place++ != '(') fail(file, "the header of this .npy file is broken");
  size_t axis = 0;
  for (; *(place += strspn(place, ", ")) != ')'; ++axis) {
    char *end;
    const unsigned long long size = strtoull(place, &end, 10);
    if (end == place) fail(file, "the header of this .npy file is broken");
    if (axis >= tensor->rank || size != tensor->sizes[axis]) mismatch(file, tensor, "the array has another shape");
    place = end;
  }
  if (axis != tensor->rank) mismatch(file, tensor, "the array has another shape");
}

static void *read_array(const char *file, const struct tensor *tensor) {
  unsigned char start[12];
  FILE *in = fopen(file, "rb");
  if (in == NULL) fail(file, "this file cannot be opened");
  if (fread(start, 1, 10, in) != 10 || memcmp(start, "\x93NUMPY", 6) != 0) fail(file, "this is no .npy file");
  size_t length = start[8] | (size_t)start[9] << 8;
  if (start[6] > 1) {
    if (fread(start + 10, 1, 2, in) != 2) fail(file, "this .npy file is too short");
    length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
  }
  if (length >= LONGEST_HEADER) fail(file, "the header of this .npy file is too long");
  char *header = reserve(length + 1);
  if (fread(header, 1, length, in) != length) fail(file, "this .npy file is too short");
  header[length] = '\0';
  check_header(file, header, tensor);
  free(header);
  void *memory = reserve(bytes_of(tensor));
  if (fread(memory, 1, bytes_of(tensor), in) != bytes_of(tensor)) fail(file, "this .npy file is too short");
  fclose(in);
  return memory;
}

static void write_array(const char *file, const struct tensor *tensor, const void *memory) {
  char header[1024];
  int used = snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                      byte_order(tensor), tensor->kind);
  for (size_t axis = 0; axis < tensor->rank && used < 900; ++axis) {
    used += snprintf(header + used, sizeof header - (size_t)used, "%llu, ", (unsigned long long)tensor->sizes[axis]);
  }
  if (used >= 900) fail(file, "the shape has too many dimensions");
  used += snprintf(header + used, sizeof header - (size_t)used, "), }");
  while ((used + 11) % 64 != 0) header[used++] = ' ';
  header[used++] = '\n';
  const unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(used & 255), (unsigned char)(used >> 8)};
  FILE *out = fopen(file, "wb");
  if (out == NULL) fail(file, "this file cannot be written");
  const size_t length = (size_t)used, bytes = bytes_of(tensor);
  if (fwrite(start, 1, sizeof start, out) != sizeof start || fwrite(header, 1, length, out) != length ||
      fwrite(memory, 1, bytes, out) != bytes || fclose(out) != 0) {
    fail(file, "this file cannot be written completely");
  }
}

int main(int count, char **words) {
  if (count != 1 + TENSORS) {
    fprintf(stderr, "usage: %s", words[0]);
    for (int number = 0; number < TENSORS; ++number) fprintf(stderr, " %s.npy", tensors[number].name);
    fprintf(stderr, "\n%d files are read, and the others are written:\n", INPUTS);
    for (int number = 0; number < TENSORS; ++number) print_type(stderr, &tensors[number]);
    return 2;
  }
  void *memory[TENSORS];
  for (int number = 0; number < TENSORS; ++number) {
    memory[number] = number < INPUTS ? read_array(words[1 + number], &tensors[number]) : reserve(bytes_of(&tensors[number]));
  }
  void *workspace = reserve(WORKSPACE_BYTES);
  call(memory, workspace);
  for (int number = INPUTS; number < TENSORS; ++number) write_array(words[1 + number], &tensors[number], memory[number]);
  for (int number = 0; number < TENSORS; ++number) free(memory[number]);
  free(workspace);
  return EXIT_SUCCESS;
}
