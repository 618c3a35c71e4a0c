// What the tests find missing in Bun and Deno: a whole file that is left out, or tests whose title contains `test`. With
// `sometimes` such a test may pass. test-matrix.mjs prints each, and fails where a test of this list passes or is gone.

const KEPT =
  'its garbage collector takes what merely looks like a pointer on the stack for one, and keeps what it points to'
const THROWN =
  '`bun test` takes an uncaught exception for a failure, though the program handles it; `bun` alone does not'
const TAIL_CALLS = 'a function that ends in a call of another is not in the stacks of that: a call site may be missing'
const COMPUTED = 'functions whose names are computed have none in stacks: the steps of these programs are such'
const WORKERS =
  'a worker that is terminated does not run the clean-up that native code has asked for (Node-API): what it had pending counts as pending still'

const TURNS =
  'async_hooks do not tell of all turns of the event loop: explore() takes what goes on after one for unforeseen, or does not see it'
const PERMISSIONS = "it has none of Node's permission model, nor --no-addons"
const ERROR_CODES = 'an error that ends a program is printed without its code'
const MACHINES = 'functions of node:fs cannot be replaced there, by which tests play other machines'
const explored = (...tests) =>
  tests.map((test) => ({ file: 'tools/explore/turns', test, sometimes: true, reason: TURNS }))
const BENCH = 'the bench starts Node, with the options and the heap of V8'
const permissions = [
  { file: 'tools/cli/doctor', test: 'where the process may not do what it needs', reason: PERMISSIONS },
  { file: 'core/default-driver', test: 'Node runs with `--permission`', reason: PERMISSIONS },
  { file: 'core/default-driver', test: 'Node or Deno may not look', reason: PERMISSIONS },
]

const BUN = [
  ...permissions,
  { file: 'bench/bench', reason: BENCH },
  { file: 'conformance/closing', test: 'by the garbage collector', sometimes: true, reason: KEPT },
  { file: 'conformance/identity', test: 'A4 ', reason: 'its refusal to clone an object does not say why' },
  { file: 'conformance/callers', test: 'the number and the format of the frames', reason: TAIL_CALLS },
  { file: 'docs/guides', test: 'docs/guides/testing.md', reason: 'it runs tests of node:test by `bun test` alone' },
  { file: 'docs/guides', test: 'docs/guides/sanitizer.md', sometimes: true, reason: TAIL_CALLS },
  {
    file: 'foundation/native/signals',
    test: 'a compiler that puts handlers back by signal()',
    reason: 'it does not need what is fixed there for Node',
  },
  { file: 'core/environment-interceptors', test: 'without the code that', reason: ERROR_CODES },
  ...explored('the GPU may have done anything', 'not every order was run', 'a turn after synchronize()'),
  ...explored('is said not to be complete', 'a wake-up that is lost'),
  { file: 'peers/cuda-core', test: 'that the program cannot reach are collected', sometimes: true, reason: KEPT },
  { file: 'peers/cuda-core-host-functions', test: 'that the program cannot reach', sometimes: true, reason: KEPT },
  { file: 'peers/cuda-core-host-functions', test: 'the collector leave launches', sometimes: true, reason: KEPT },
  { file: 'peers/cupy', test: 'a stream that is collected with work in its queue', sometimes: true, reason: KEPT },
  { file: 'peers/cuda-core-host-functions', test: 'what one throws is an uncaught exception', reason: THROWN },
  { file: 'fake-driver/fake-driver', test: 'conformance/identity', reason: 'as conformance/identity itself' },
  { file: 'tools/sanitizer/modes', test: 'tells of two lines once', reason: TAIL_CALLS },
  { file: 'tools/sanitizer/modes', test: 'are the right ones, also after many turns', reason: TAIL_CALLS },
  { file: 'tools/sanitizer/modes', test: 'the later one also where it happens once', reason: TAIL_CALLS },
  { file: 'tools/sanitizer/pairs/pairs', test: ': the advice', reason: COMPUTED },
  { file: 'tools/sanitizer/random', test: 'agrees with the judge', reason: TAIL_CALLS },
  { file: 'simulator/memory', test: 'is used near its end as any', reason: 'it has no arrays of more than 4 GiB' },
  { file: 'simulator/memory', test: 'says what is too long', reason: 'it has no arrays of more than 4 GiB' },
  { file: 'soak/soak', reason: `the soak counts what is collected, and ${KEPT}` },
]

const DENO = [
  ...permissions,
  { file: 'bench/bench', reason: BENCH },
  {
    file: 'tools/cli/doctor',
    test: 'colours are for terminals',
    reason: 'its styleText() obeys NO_COLOR, which the matrix sets',
  },
  { file: 'conformance/silent-waits', test: 'NODE_NO_WARNINGS=1', reason: 'it does not know NODE_NO_WARNINGS' },
  { file: 'fake-driver/fake-driver', test: 'conformance/silent-waits', reason: 'as conformance/silent-waits itself' },
  { file: 'core/default-driver', test: '"files":{', reason: MACHINES },
  { file: 'core/environment-interceptors', test: 'without the code that', reason: ERROR_CODES },
  ...explored('the GPU may have done anything', 'is said not to be complete'),
  {
    file: 'package/tarball',
    test: 'has the example',
    sometimes: true,
    reason: "the package's own folder, where these are started, is taken for a project that lacks the package",
  },
  {
    file: 'conformance/driver-choice',
    test: 'B1 of all threads of a process',
    reason: 'text given to `-e` or to a worker cannot import() anything',
  },
  {
    file: 'foundation/native/signals',
    test: 'a compiler that puts handlers back by signal()',
    reason: 'it does not need what is fixed there for Node',
  },
  { file: 'fake-driver/fake-driver', test: 'a wait inside a host function', reason: 'parentPort has no close()' },
  { file: 'processes/thread-table', test: 'a thread sees what others have pending', sometimes: true, reason: WORKERS },
  {
    file: 'processes/process-registry',
    test: 'a thread sees what others have pending',
    sometimes: true,
    reason: WORKERS,
  },
  {
    file: 'processes/process-registry',
    test: 'a call that waits for the device is made',
    sometimes: true,
    reason: WORKERS,
  },
  { file: 'processes/process-registry', test: 'a device is recorded while no other', sometimes: true, reason: WORKERS },
  {
    file: 'processes/process-registry',
    test: 'entries that other threads have counted',
    sometimes: true,
    reason: WORKERS,
  },
  { file: 'processes/worker-first', test: 'workers leave no file open', sometimes: true, reason: WORKERS },
  { file: 'fake-driver/waiting', test: 'processes/worker-first', sometimes: true, reason: WORKERS },
  { file: 'soak/soak', reason: 'the soak starts and ends workers all the time, and parentPort has no close()' },
]

const GAPS = { bun: BUN, deno: DENO }

export const gapsOf = (name) => (GAPS[name] ?? []).map((gap) => ({ ...gap, file: `${gap.file}.test.js` }))
