/** The lessons, in their order: each program with its bug, and as it is fixed. */
import type { Lesson } from '../src/page/lesson.js'
import { text as bankConflictsFixed } from './bank-conflicts.fixed.ts?text'
import { text as bankConflicts } from './bank-conflicts.ts?text'
import { text as coalescingFixed } from './coalescing.fixed.ts?text'
import { text as coalescing } from './coalescing.ts?text'
import { text as divergenceFixed } from './divergence.fixed.ts?text'
import { text as divergence } from './divergence.ts?text'
import { text as eventsFixed } from './events.fixed.ts?text'
import { text as events } from './events.ts?text'
import { text as firstKernelFixed } from './first-kernel.fixed.ts?text'
import { text as firstKernel } from './first-kernel.ts?text'
import { text as foreignStreamFixed } from './foreign-stream.fixed.ts?text'
import { text as foreignStream } from './foreign-stream.ts?text'
import { text as freedMemoryFixed } from './freed-memory.fixed.ts?text'
import { text as freedMemory } from './freed-memory.ts?text'
import { text as graphsFixed } from './graphs.fixed.ts?text'
import { text as graphs } from './graphs.ts?text'
import { text as hostFunctionsFixed } from './host-functions.fixed.ts?text'
import { text as hostFunctions } from './host-functions.ts?text'
import { text as noOverlapFixed } from './no-overlap.fixed.ts?text'
import { text as noOverlap } from './no-overlap.ts?text'
import { text as nullStreamFixed } from './null-stream.fixed.ts?text'
import { text as nullStream } from './null-stream.ts?text'
import { text as outOfBoundsFixed } from './out-of-bounds.fixed.ts?text'
import { text as outOfBounds } from './out-of-bounds.ts?text'
import { text as pinnedStagingFixed } from './pinned-staging.fixed.ts?text'
import { text as pinnedStaging } from './pinned-staging.ts?text'
import { text as sharedMemoryFixed } from './shared-memory.fixed.ts?text'
import { text as sharedMemory } from './shared-memory.ts?text'
import { text as signatureFixed } from './signature.fixed.ts?text'
import { text as signature } from './signature.ts?text'
import { text as tripleBufferFixed } from './triple-buffer.fixed.ts?text'
import { text as tripleBuffer } from './triple-buffer.ts?text'
import { text as twoStreamsFixed } from './two-streams.fixed.ts?text'
import { text as twoStreams } from './two-streams.ts?text'

export const LESSONS: readonly Lesson[] = [
  {
    slug: 'first-kernel',
    title: 'A kernel and a copy',
    text: [
      'A stream is a queue of work for the GPU. Work of one stream runs in the order in which it was queued; two streams run side by side, and nothing orders them.',
      'Here one stream uploads `x`, and a kernel on another one reads it. The kernel may come first: then it computes with bytes that nobody has written.',
    ],
    look: 'the two lines that the sanitizer marks, and the result in the console. `axpy.cu` has the kernel.',
    program: firstKernel,
    fixed: firstKernelFixed,
    expected: { result: 'Float32Array(4) [ 15, 26, 37, 48 ]' },
  },
  {
    slug: 'two-streams',
    title: 'Two streams',
    text: [
      'No kernel is needed for that. One stream fills `data` and another one copies it. The copy may come first: then it takes over bytes that nobody has written, `cd` in this simulator.',
    ],
    look: 'the two lines that the sanitizer marks, and the two orders under Orders: step through them, and see `copy` get other bytes.',
    program: twoStreams,
    fixed: twoStreamsFixed,
    expected: { result: 'Uint8Array(4) [ 7, 7, 7, 7 ]' },
  },
  {
    slug: 'events',
    title: 'Events',
    text: [
      'An event is a mark in a stream: `record()` sets it behind all that was queued so far, and `wait(event)` lets another stream wait for that mark only.',
      'So the place of the record matters: what is queued behind it is not waited for.',
    ],
    look: 'which line comes first, `record()` or `upload()`. The advice waits for the whole stream, which is right, too; better is to move the record.',
    program: events,
    fixed: eventsFixed,
    expected: { result: 'Uint8Array(4) [ 1, 2, 3, 4 ]' },
  },
  {
    slug: 'null-stream',
    title: "The null stream's trap",
    text: [
      'Work that names no stream goes to the null stream. It is ordered with blocking streams, which CUDA makes by default, and not with non-blocking ones, which `new Stream()` makes, as PyTorch does.',
      'Programs that mix both seem to work, until the GPU is fast enough.',
    ],
    look: 'the tracks: `work` does not wait for the null stream.',
    program: nullStream,
    fixed: nullStreamFixed,
    expected: { result: 'Uint8Array(4) [ 5, 5, 5, 5 ]' },
  },
  {
    slug: 'pinned-staging',
    title: 'Pinned staging',
    text: [
      'Copies from pinned memory return at once: the GPU reads the bytes later. Until then they belong to the GPU.',
      'This program writes the next bytes into the same memory while the first copy may still read.',
    ],
    look: 'the finding: its second line is JavaScript, not a stream. So it is JavaScript that has to wait.',
    program: pinnedStaging,
    fixed: pinnedStagingFixed,
    expected: { result: '[ Uint8Array(4) [ 1, 1, 1, 1 ], Uint8Array(4) [ 2, 2, 2, 2 ] ]' },
  },
  {
    slug: 'host-functions',
    title: 'Host functions',
    text: [
      '`launchHostFunc()` queues a function: it runs when the work before it in its stream is done. Work of other streams is not waited for.',
      'Here the function adds up bytes that another stream copies.',
    ],
    look: 'which stream the host function is queued on, and which one copies.',
    program: hostFunctions,
    fixed: hostFunctionsFixed,
    expected: { result: '40' },
  },
  {
    slug: 'graphs',
    title: 'Graphs',
    text: [
      'A capture records work instead of running it; the graph is launched with one call. In a capture, waits between streams become edges of the graph.',
      'An edge that is missing is missing in each launch.',
    ],
    look: 'the order of the lines inside `capture()`: does the copy come after `side`?',
    program: graphs,
    fixed: graphsFixed,
    expected: { result: 'Uint8Array(4) [ 3, 3, 3, 3 ]' },
  },
  {
    slug: 'foreign-stream',
    title: "Somebody else's stream",
    text: [
      'Other libraries have streams of their own. `ExternalStream` wraps the handle of one, so that work can be ordered with theirs, without knowing how they made it.',
      'Nothing is ordered by the wrapping alone.',
    ],
    look: 'the track of `theirs`: it is a stream like any other.',
    program: foreignStream,
    fixed: foreignStreamFixed,
    expected: { result: 'Uint8Array(4) [ 9, 9, 9, 9 ]' },
  },
  {
    slug: 'freed-memory',
    title: 'Memory freed in stream order',
    text: [
      '`close()` frees memory in the order of the stream that it was allocated on. The library waits for each use that it knows of. It does not know of a use through a bare address.',
      'Freed memory may belong to somebody else at once; the simulator writes `dd` over it.',
    ],
    look: 'which stream frees, and which one still reads.',
    program: freedMemory,
    fixed: freedMemoryFixed,
    expected: { result: 'Uint8Array(4) [ 6, 6, 6, 6 ]' },
  },
  {
    slug: 'triple-buffer',
    title: 'A triple-buffered pipeline',
    text: [
      'With three buffers, one can be filled while others are in use. From the fourth frame on, a buffer is used again.',
      'Computing waits for the upload. Does the upload wait for the computing?',
    ],
    look: "the finding's two lines: the fill of a later frame, and the copy of an earlier one. The advice waits for all of `compute`; an event for each frame waits for less.",
    program: tripleBuffer,
    fixed: tripleBufferFixed,
    expected: {
      result: 'Uint8Array(20) [ 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5 ]',
    },
  },
  {
    slug: 'no-overlap',
    title: 'Why does it not overlap?',
    text: [
      'Nothing is wrong with the bytes here, and the sanitizer finds nothing. But two streams that could run side by side take turns.',
      '`synchronize()` stops JavaScript until a stream is done: meanwhile nothing is queued for the other one.',
    ],
    look: 'the tracks, and what held streams up below them: it names the line that costs most. Streams can wait for each other without JavaScript.',
    program: noOverlap,
    fixed: noOverlapFixed,
    expected: { result: 'Uint8Array(2) [ 1, 2 ]' },
    most: 60_000,
  },
  {
    slug: 'out-of-bounds',
    title: 'A kernel out of bounds',
    text: [
      'A kernel is launched in blocks of threads, and seldom do its elements fill the last block: here 12 threads run for 10 elements. So a kernel asks first whether there is an element for its thread.',
      'This one does not. On a GPU what lies behind the buffer may be other memory, which is changed without a word. On the simulator it is a fault: the GPU is lost, and every call fails from then on.',
      'A page cannot compile CUDA C++, so a program imports a kernel that was compiled before: `out-of-bounds.fixed.cu` is another.',
    ],
    look: 'the error: it names the block and the thread, how far behind the buffer it read, and the line of the kernel, which is marked in the tab of the kernel.',
    program: outOfBounds,
    fixed: outOfBoundsFixed,
    expected: { result: 'Int32Array(10) [ 0, 1, 4, 9, 16, 25, 36, 49, 64, 81 ]' },
  },
  {
    slug: 'shared-memory',
    title: 'A race within a block',
    text: [
      'The threads of a block have shared memory, through which they can work together. Nothing orders them but barriers: `__syncthreads()` holds each thread until all of the block are there.',
      'Here 256 threads add up as many numbers in eight rounds. A thread takes the sum of another one, which may not have got there: the total is wrong. On a GPU it may come out right by chance.',
      'Streams have no part in this: the kernel has to be another. `shared-memory.fixed.cu` waits in each round.',
    ],
    look: 'the two threads in the finding, and the two lines that are marked in the kernel. What would have to lie between them?',
    program: sharedMemory,
    fixed: sharedMemoryFixed,
    expected: { result: 'Int32Array(1) [ 32896 ]' },
  },
  {
    slug: 'signature',
    title: 'A signature that lies',
    text: [
      'A kernel that a program imports comes with its signature: what it takes, and what it does with the memory of each pointer. Kernels that only read do not race. On a GPU the sanitizer has nothing else to judge by.',
      'The compiler reads in the code what is done. Here it cannot: the pointer goes to another function. So it believes the source, which says `const`, and that is a lie: a cast takes the `const` away, and `store()` writes. The simulator runs the code, so the sanitizer knows which bytes are touched, and says first that the signature is wrong. Correct that, and it finds the race.',
      '`add` runs on both streams at once, too, and that is no race: the one has every second element, the other one those between.',
    ],
    look: 'the two orders: `add` and `multiply` of elements 0, 2 and 4 may come in either. Import `./signature.fixed.cu`, where nothing is `const`, and run it again: now the advice is a line to insert.',
    program: signature,
    fixed: signatureFixed,
    expected: { result: 'Int32Array(6) [ 10, 2, 10, 2, 10, 2 ]' },
  },
  {
    slug: 'coalescing',
    title: 'Rows and columns',
    text: [
      'This program is right, and slow on a GPU. The 32 threads of a warp access memory together, in sectors of 32 bytes. Threads that read neighbours of 4 bytes share them: 4 sectors for all. This kernel reads a row of a matrix so, but it writes a column, and each element of that lies in a sector of its own: 32 for the same bytes.',
      'Let a block go through shared memory: each warp reads a row into a tile, and after `__syncthreads()` it writes a row, whose elements it takes from a column of the tile.',
    ],
    look: 'the numbers of the kernel, and the notes beside its lines in `coalescing.cu`. A page cannot compile CUDA C++: the fixed program has the changed kernel.',
    program: coalescing,
    fixed: coalescingFixed,
    expected: { firstRow: 'Float32Array(5) [ 0, 32, 64, 96, 128 ]' },
    goal: 'sectors',
  },
  {
    slug: 'bank-conflicts',
    title: 'A column in one bank',
    text: [
      'That tile has a price. Shared memory has 32 banks: the first word is in the first bank, the 33rd in the first again. In one pass each bank gives one word. A row of the tile lies in 32 banks, but a column of 32 rows with 32 words each lies in a single one, and a warp that wants it takes 32 passes.',
      'With a column more, which nobody uses, each row begins one bank further, and a column lies in 32 banks, too.',
    ],
    look: 'the passes of line 8 in the numbers of the kernel, and how one character of `bank-conflicts.fixed.cu` makes them one.',
    program: bankConflicts,
    fixed: bankConflictsFixed,
    expected: { firstRow: 'Float32Array(5) [ 0, 32, 64, 96, 128 ]' },
    goal: 'bankConflicts',
  },
  {
    slug: 'divergence',
    title: 'Threads that part',
    text: [
      'The threads of a warp run one instruction together. Where a branch divides them, the one side waits while the other one runs, so that a warp with a single thread at work costs as much as a full one.',
      'Here every second thread adds in the first round, then every fourth, and so on: all eight warps are divided in almost all rounds. If the threads at work are neighbours, whole warps add, and whole warps have nothing to do; only the last rounds divide one.',
    ],
    look: 'how many of the branches of line 9 divide a warp.',
    program: divergence,
    fixed: divergenceFixed,
    expected: { result: 'Int32Array(1) [ 32896 ]' },
    goal: 'divergence',
  },
]
