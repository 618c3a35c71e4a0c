/** The arguments of each command of the package, and the texts of --help. */
import { WHAT_IF_OPTIONS } from './what-if-options.js'

interface Command {
  readonly usage: string
  /** The description of the command in the list of all commands. */
  readonly does: string
  /** The options that the command accepts. */
  readonly options: readonly string[]
  readonly help: string
}

/** The commands; keys are their names. A map is used, since every object has a member named 'constructor'. */
export const COMMANDS: ReadonlyMap<string, Command> = new Map<string, Command>(
  Object.entries({
    doctor: {
      usage: 'doctor [--json] [--verbose] [--timeout SECONDS] [FILE.js...]',
      does: 'examines what cuda-streams needs on this machine, and tests each device',
      options: ['json', 'verbose', 'timeout'],
      help: `Examines what cuda-streams needs on this machine, prints which driver a program gets and why, and tests each of its
devices. Of each file, a bundle or what compile has written, it says which devices run the kernels in it. The exit code is
0 if everything that is requested works, and 1 if something does not.

  --json             the report as JSON
  --verbose          of what is missing the files that were looked for, too
  --timeout SECONDS  the time limit of a step (default 30)

Examples:
  cuda-streams doctor
  cuda-streams doctor --json dist/server.js`,
    },
    demo: {
      usage: 'demo',
      does: 'finds a missing wait in a small program, without a project',
      options: [],
      help: `Runs a small program on a simulated GPU, in which one of two streams does not wait for the other, and prints the program, what
the sanitizer says of it, and the same with the wait. It needs neither a GPU nor a project. The exit code is 0.

Example:
  npx cuda-streams demo`,
    },
    compile: {
      usage: 'compile FILE... [--out DIR] [--arch ARCH] [--cubin ARCH]... [--types] [--ptx] [--watch] [-- OPTIONS]',
      does: 'makes a module of JavaScript of each file of CUDA C++ or Triton',
      options: ['out', 'arch', 'cubin', 'types', 'ptx', 'watch'],
      help: `Makes a module of JavaScript of each file of CUDA C++, FILE.cu.js, which exports its kernels, with declarations for
TypeScript. It needs NVRTC, and no GPU. Of a file of Python with Triton kernels it makes FILE.py.js; that needs a Python
with Triton, which CUDA_STREAMS_PYTHON names, or else the first on the PATH. The exit code is 1 if a file does not compile.

  --out DIR          where to write (default: beside each file)
  --arch ARCH        the lowest architecture to compile for (default compute_75; for Triton compute_80)
  --cubin ARCH       machine code for such GPUs, too, as for sm_90; may be given several times
  --types            only declarations, FILE.d.cu.ts, for imports of FILE.cu itself
  --ptx              the code as FILE.ptx, too
  --watch            compiles again whenever a file changes
  OPTIONS            for NVRTC

Examples:
  cuda-streams compile axpy.cu softmax.py
  cuda-streams compile kernels/*.cu --out dist --cubin sm_90 -- -I include -DTILE=32`,
    },
    check: {
      usage: 'check RUN.rec [--possible]',
      does: 'finds the waits that are missing in a recording',
      options: ['possible'],
      help: `Finds the waits that are missing, in a recording or in a folder of CUDA_STREAMS_TRACE. It needs no GPU. The exit code is 1
if there are any.

  --possible         also pairs that race if a kernel writes where it is only known to read or write

Example:
  CUDA_STREAMS_RECORD=run.rec node program.js && cuda-streams check run.rec`,
    },
    timeline: {
      usage: 'timeline RUN.rec...|DIR [--out FILE]',
      does: 'draws a recording as a page, or as a trace or a picture',
      options: ['out'],
      help: `Draws a recording as a page, RUN.html. It needs no GPU. Those of several ranks, or a folder of them, are drawn on one axis, to
which the ends of their collectives bring them.

  --out FILE         another file: .html, .json, .json.gz, .svg or .txt

Examples:
  CUDA_STREAMS_RECORD=run.rec node program.js && cuda-streams timeline run.rec
  cuda-streams timeline run.rec --out run.svg

Without a recording: CUDA_STREAMS_TIMELINE=run.html node program.js`,
    },
    why: {
      usage: 'why RUN.rec...|DIR',
      does: 'says what held the streams of a recording up',
      options: [],
      help: `Says what held the streams of a recording up, and what the run's time was made of. It needs no GPU. Of several ranks, or a
folder of them, it says which rank the others waited for, and what it did meanwhile.

Examples:
  CUDA_STREAMS_RECORD=run.rec node program.js && cuda-streams why run.rec
  cuda-streams record --out traces -- torchrun --nproc-per-node 4 train.py && cuda-streams why traces`,
    },
    'what-if': {
      usage: `what-if RUN.rec [--without-wait LINE] [--own-stream LINE] [--more-buffers LINE] [--faster NAME=PERCENT]
                                    [--queues COUNT] [--idle-host] [--timeout SECONDS] [--json]`,
      does: 'predicts what the run of a recording would gain by changes',
      options: [...WHAT_IF_OPTIONS, 'timeout', 'json'],
      help: `Predicts what the run of a recording would gain by changes: all that may be worth it, or those that are given, each of
which may be given several times. It needs no GPU.

  --without-wait LINE   without the wait at a line, such as video.js:41
  --own-stream LINE     the work of a line on a stream of its own
  --more-buffers LINE   one more buffer in the ring of which the wait at this line guards the next
  --faster NAME=PERCENT a kernel that is so much faster, such as blur=20
  --queues COUNT        so many hardware queues
  --idle-host           no time of the program between the calls
  --timeout SECONDS     for how long changes are tried (default 30)
  --json                what is predicted as JSON

Examples:
  CUDA_STREAMS_RECORD=run.rec node program.js && cuda-streams what-if run.rec
  cuda-streams what-if run.rec --without-wait video.js:41 --faster blur=20`,
    },
    record: {
      usage: 'record [--out FILE.rec|DIR] -- COMMAND [ARGUMENTS]',
      does: 'records what a program does with CUDA and when, in any language',
      options: ['out'],
      help: `Runs a program that uses CUDA, in any language, and records what all of its libraries do and when the GPU does it, for
timeline, why, what-if and check. It needs a GPU and CUPTI. The exit code is the program's, or 1 if nothing was recorded.

  --out FILE.rec     the recording (default run.rec); of several processes each has its own, FILE.PID.rec
  --out DIR          a folder for the recordings of all processes, PID.rec

Examples:
  cuda-streams record -- python train.py && cuda-streams why run.rec
  cuda-streams record --out traces -- torchrun --nproc-per-node 2 train.py`,
    },
    sanitize: {
      usage:
        'sanitize [--possible] [--host LEVEL] [--text FILE] [--html FILE] [--junit FILE] [--keep DIR] -- COMMAND [ARGUMENTS]',
      does: 'finds the missing waits of a program that uses CUDA, in any language',
      options: ['possible', 'host', 'text', 'html', 'junit', 'keep'],
      help: `Runs a program that uses CUDA, in any language, and finds the waits that are missing between all of its libraries: a
PyTorch program needs not a line of JavaScript. It needs a GPU and CUPTI. The exit code is the program's, or 1 if waits are
missing.

  --possible         also pairs that race if a kernel writes where it is only known to read or write
  --host LEVEL       how closely the host is watched, which touches page-locked memory while copies are pending: exact (each
                     copy), sampled (the first copies of each line and some later; the default), off
  --text FILE        the findings as text, also where the program prints much
  --html FILE        the findings as a page
  --junit FILE       the findings as JUnit's XML, for continuous integration
  --keep DIR         where the recordings of its processes are left, PID.rec

Examples:
  cuda-streams sanitize -- python train.py
  cuda-streams sanitize --keep traces -- torchrun --nproc-per-node 2 train.py`,
    },
  }),
)

const WIDTH = Math.max(...[...COMMANDS.keys()].map((name) => name.length))

const ALL = `Usage: cuda-streams COMMAND [OPTIONS]

${[...COMMANDS].map(([name, { does }]) => `  ${name.padEnd(WIDTH)}  ${does}`).join('\n')}

cuda-streams COMMAND --help says what a command takes, cuda-streams --version which version this is.

check, timeline, why and what-if read a recording, which record makes of a program. Recordings, timelines and the sanitizer of
programs of this library are variables of their environment, and need no GPU:

  CUDA_STREAMS_RECORD=run.rec node program.js      records what the commands read (docs/guides/recording.md)
  CUDA_STREAMS_TIMELINE=run.html node program.js   records what ran when (docs/guides/timeline.md)
  CUDA_STREAMS_SANITIZER=1 node program.js         finds missing waits (docs/guides/sanitizer.md)`

/** The text of --help, of one command or of all. */
export function helpOf(name: string | undefined): string {
  const command = name === undefined ? undefined : COMMANDS.get(name)
  return command === undefined ? ALL : `Usage: cuda-streams ${command.usage}\n\n${command.help}`
}
