// What becomes of a folder of CUDA code, such as other people's projects, each in a folder of its own:
// `npm run public-kernels -- FOLDER`. Each file is compiled for `import kernels from './x.cu'`, and each of its kernels is loaded
// and run on the simulator. Prints a table by project, and why files are refused, by the first mistake of each.
//
// "alone" are files that need nothing but the project, the language's headers and CUDA's; with `--nvcc PATH`, those that nvcc
// compiles to PTX. A header is looked for in the whole project, as a user would name its folder by -I. "loaded" are kernels whose PTX the
// simulator has made into code; it refuses launches of those that use textures, which are listed at the end. "ran" are those that ended by themselves when launched once with one block of 32 threads, where each
// pointer is 1 MiB of zeros, each whole number 32, each other number 1, and each struct zeros: no kernel is told what it expects, so it may
// as well leave its memory ("fault"), or not end in the time that a file has.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { root } from './test-files.mjs'

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    arch: { type: 'string', default: 'compute_80' },
    every: { type: 'string', default: '1' },
    file: { type: 'string' },
    from: { type: 'string', default: '0' },
    jobs: { type: 'string', default: `${Math.min(4, availableParallelism())}` },
    json: { type: 'string' },
    nvcc: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    option: { type: 'string', multiple: true, default: [] },
    seconds: { type: 'string', default: '60' },
    show: { type: 'string', default: '25' },
  },
})
const dist = (path) => import(pathToFileURL(join(root, 'dist', 'src', path)).href)

/** Headers of the languages C and C++, of POSIX and of CUDA's toolkit, which a file that needs nothing else may include. */
const KNOWN_HEADERS =
  /^(?:c?(?:assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|time|uchar|wchar|complex)(?:\.h)?|(?:malloc|memory|strings|unistd|pthread|omp|getopt|libgen|fcntl|dirent|dlfcn|sched|immintrin|x86intrin|emmintrin|values|byteswap|endian)\.h|sys\/\w+\.h|[a-z_]+|(?:experimental|cuda|cub|thrust|cooperative_groups|nv|crt|nvtx3)\/.*|(?:cuda|cublas|cufft|curand|cusparse|cusolver|nvrtc|nvml|nvToolsExt|nvjpeg|npp|cooperative_groups|device|driver|vector|math|texture|surface|channel_descriptor|builtin|host|library|mma|sm_|math_constants|cuComplex)\w*\.h(?:pp)?)$/i

const INCLUDE = /^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)/gm
const isFile = (path) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false

/** The folders that a user would name by -I: of the project's headers that do not lie beside the file that includes them. */
function includeFolders(file, project) {
  const headers = new Map()
  for (const path of readdirSync(project, { recursive: true, encoding: 'utf8' })) {
    const name = basename(path)
    headers.set(name, [...(headers.get(name) ?? []), join(project, path)])
  }
  const folders = new Set()
  const missing = new Set()
  const begun = new Set()
  let hasKernel = false
  const nearest = (name, from) => {
    const ends = (headers.get(basename(name)) ?? []).filter(
      (path) => path.endsWith(sep + name) && isFile(path) && path !== from,
    )
    const shared = (path) =>
      relative(dirname(from), path)
        .split(sep)
        .filter((part) => part === '..').length
    return ends.sort((a, b) => shared(a) - shared(b) || a.length - b.length)[0]
  }
  const read = (path) => {
    if (begun.has(path)) return
    begun.add(path)
    const text = readFileSync(path, 'utf8')
    hasKernel ||= text.includes('__global__')
    for (const [, quoted, angled] of text.matchAll(INCLUDE)) {
      const name = (quoted ?? angled).trim()
      const near = [...(quoted === undefined ? [] : [dirname(path)]), ...folders].map((folder) => join(folder, name))
      let found = near.find(isFile)
      if (found === undefined && !KNOWN_HEADERS.test(name)) {
        const far = nearest(name.replace(/^(?:\.\.?\/)+/, ''), path)
        if (far === undefined) missing.add(name)
        else {
          folders.add(resolve(far.slice(0, -name.length)))
          found = isFile(join(far.slice(0, -name.length), name)) ? far : undefined
        }
      }
      if (found !== undefined) read(found)
    }
  }
  read(file)
  return { folders: [...folders], missing: [...missing], hasKernel }
}

const BYTES = 2 ** 20

/** A value for a parameter of which nothing is known but its type. */
function plausible(type, stream) {
  if (typeof type !== 'string') {
    const pointed = type.in ?? type.out ?? type.inout ?? type.atomic
    return pointed === undefined ? zeros(type.fields) : stream.device.alloc(BYTES, { stream })
  }
  if (type.endsWith('*')) return stream.device.alloc(BYTES, { stream })
  return number(type)
}

function number(type) {
  if (typeof type !== 'string')
    return Array.isArray(type) ? Array.from({ length: type[1] }, () => zero(type[0])) : zeros(type.fields)
  const [, scalar, lanes] = /^(\w+?)(?:x(\d))?$/.exec(type) ?? []
  const one =
    scalar === 'bool' ? true : /64$/.test(scalar) && !scalar.startsWith('f') ? 32n : /^[iu]/.test(scalar) ? 32 : 1
  return lanes === undefined ? one : Array.from({ length: Number(lanes) }, () => one)
}

function zero(type) {
  if (typeof type !== 'string') return number(type)
  const [, scalar, lanes] = /^(\w+?)(?:x(\d))?$/.exec(type) ?? []
  const none = scalar === 'bool' ? false : /64$/.test(scalar) && !scalar.startsWith('f') ? 0n : 0
  return lanes === undefined ? none : Array.from({ length: Number(lanes) }, () => none)
}

const zeros = (fields) => Object.fromEntries(Object.entries(fields).map(([name, type]) => [name, zero(type)]))

/** What a child says of a file: each thing that is known is a line, so that what ends it leaves the others. */
async function judge(file, project) {
  // What a kernel prints may end within a line.
  const say = (said) => process.stdout.write(`\n${JSON.stringify(said)}\n`)
  const { folders, missing, hasKernel } = includeFolders(file, project)
  say({ missing, folders, state: hasKernel ? 'unknown' : 'no kernel' })
  if (!hasKernel) return
  const { compileCuNow } = await dist('entry-points/cu.js')
  const options = [...folders.flatMap((folder) => ['-I', folder]), ...given.option]
  let compiled
  try {
    compiled = compileCuNow(file, { arch: given.arch, options })
  } catch (error) {
    const isTemplates = error.code === 'ERR_COMPILATION' && error.message.includes(' has nothing to launch')
    say({ state: isTemplates ? 'no kernel' : 'refused', cause: causeOf(error), message: error.message })
    return
  }
  const { kernels, notes, ptx } = compiled
  const entries = ptx.match(/^\s*(?:\.visible |\.weak )?\.entry \S+/gm)?.length ?? 0
  say({ state: 'compiled', notes, entries, kernels: kernels.map(({ name }) => ({ name, state: 'begun' })) })
  const { simulate } = await dist('entry-points/sim.js')
  const { Device, Module, Stream } = await dist('entry-points/index.js')
  simulate({ seed: 1 })
  for (const { name, signature } of kernels.slice(Number(given.from))) {
    say({ kernel: name, ...(await runOnce(ptx, name, signature, { Device, Module, Stream })) })
  }
}

async function runOnce(ptx, name, signature, { Device, Module, Stream }) {
  let isLoaded = false
  try {
    const device = Device.get()
    const stream = new Stream({ device })
    const kernel = Module.load(ptx, { device }).kernel(name, signature)
    isLoaded = true
    process.stdout.write(`\n${JSON.stringify({ kernel: name, state: 'loaded' })}\n`)
    const values = signature.map((type) => plausible(type, stream))
    stream.launch(kernel, { grid: 1, block: 32, sharedMemory: 4096 }, ...values)
    await stream.synchronize()
    return { state: 'ran' }
  } catch (error) {
    const why = `${error.code ?? error.name}: ${error.message.split('\n')[0]}`
    const isUnsupported = error.code === 'ERR_UNSUPPORTED'
    return { state: isUnsupported ? (isLoaded ? 'not launched' : 'not loaded') : 'fault', why }
  }
}

/** The first mistake, without what only this file calls so. */
function causeOf(error) {
  const [first] = error.diagnostics ?? []
  const text = (first?.message ?? error.message).split('\n')[0] ?? ''
  return text.length > 160 ? `${text.slice(0, 160)}…` : text
}

/**
 * The outcome of a file, from processes of its own: one that is ended by a kernel is followed by another, which goes on behind that.
 * Compiling has a limit of time, and so has each kernel.
 */
async function outcome(file, project) {
  const found = { file, project, missing: [], state: 'unknown', kernels: [] }
  for (let from = 0; ; ) {
    const { said, end } = await runChild(file, project, from)
    for (const { kernel, ...more } of said) {
      if (kernel !== undefined)
        Object.assign(
          found.kernels.find(({ name }) => name === kernel),
          more,
        )
      else if (from === 0) Object.assign(found, more)
    }
    if (found.state === 'unknown') return Object.assign(found, { state: 'refused', cause: end })
    const last = found.kernels.findIndex(({ state }) => state === 'begun' || state === 'loaded')
    if (last < 0) return found
    const kernel = found.kernels[last]
    Object.assign(kernel, { state: kernel.state === 'loaded' ? 'fault' : 'not loaded', why: end })
    from = last + 1
  }
}

/** What a process says of a file, and how it ended. */
function runChild(file, project, from) {
  const more = [...given.option.map((each) => `--option=${each}`), `--arch=${given.arch}`, `--from=${from}`]
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), project, '--file', file, ...more], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [text, errors, isLate] = ['', '', false]
  const limit = setTimeout(() => {
    isLate = true
    child.kill('SIGKILL')
  }, Number(given.seconds) * 1000)
  child.stdout.on('data', (chunk) => {
    text += chunk
    limit.refresh()
  })
  child.stderr.on('data', (chunk) => {
    errors = `${errors}${chunk}`.slice(-2000)
  })
  return new Promise((done) =>
    child.on('close', (code, signal) => {
      clearTimeout(limit)
      const said = text
        .split('\n')
        .flatMap((line) => (/^\{"(?:kernel|missing|state)":.*\}$/.test(line) ? [JSON.parse(line)] : []))
      const how = signal ? `ended by ${signal}` : `ended with ${code}: ${errors.trim().split('\n').at(-1)}`
      done({ said, end: isLate ? `not done in ${given.seconds} s` : how })
    }),
  )
}

/** Whether nvcc makes PTX of a file, and else its first mistake. */
function askNvcc({ file, folders = [] }) {
  const scratch = mkdtempSync(join(tmpdir(), 'public-kernels-'))
  try {
    const all = [
      '-ptx',
      `-arch=${given.arch}`,
      '-o',
      join(scratch, 'x.ptx'),
      ...folders.flatMap((each) => ['-I', each]),
    ]
    const limit = { encoding: 'utf8', timeout: Number(given.seconds) * 1000 }
    const { status, stderr, stdout } = spawnSync(given.nvcc, [...all, ...given.option, file], limit)
    return status === 0
      ? { compiles: true }
      : { compiles: false, why: /error[^\n]*/.exec(`${stderr}${stdout}`)?.[0] ?? 'no answer' }
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

const isAlone = ({ missing, nvcc }) => nvcc?.compiles ?? missing.length === 0
const percent = (part, whole) => (whole === 0 ? '' : `${((100 * part) / whole).toFixed(0)} %`)

function print(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => `${row[column]}`.length)))
  for (const row of rows)
    console.log(
      row
        .map((cell, column) => (column === 0 ? `${cell}`.padEnd(widths[0]) : `${cell}`.padStart(widths[column])))
        .join('  '),
    )
}

function summary(all) {
  const rowOf = (name, files) => {
    const own = files.filter(({ state }) => state !== 'no kernel')
    const [alone, others] = [own.filter(isAlone), own.filter((each) => !isAlone(each))]
    const compiled = (some) => some.filter(({ state }) => state === 'compiled').length
    const kernels = own.flatMap((each) => each.kernels)
    const loaded = kernels.filter(({ state }) => /^(?:fault|not launched|ran)$/.test(state)).length
    const ran = kernels.filter(({ state }) => state === 'ran').length
    return [
      ...[
        name,
        files.length,
        files.length - own.length,
        alone.length,
        compiled(alone),
        percent(compiled(alone), alone.length),
      ],
      ...[others.length, compiled(others), kernels.length, loaded, percent(loaded, kernels.length), ran],
    ]
  }
  const projects = [...new Set(all.map(({ project }) => project))]
  print([
    ['project', 'files', 'no kernel', 'alone', 'compiled', '', 'others', 'compiled', 'kernels', 'loaded', '', 'ran'],
    ...projects.map((project) =>
      rowOf(
        basename(project),
        all.filter((each) => each.project === project),
      ),
    ),
    ...(projects.length > 1 ? [rowOf('all', all)] : []),
  ])
}

function causes(title, entries) {
  const groups = new Map()
  for (const each of entries) groups.set(each.cause, [...(groups.get(each.cause) ?? []), each])
  if (groups.size === 0) return
  console.log(`\n${title}`)
  for (const [cause, some] of [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, Number(given.show)))
    console.log(`${`${some.length}`.padStart(5)}  ${cause}  (${some[0].where})`)
}

async function main(folder) {
  const home = resolve(folder)
  const files = readdirSync(home, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.cu') && isFile(join(home, name)))
    .filter((name) => given.only.length === 0 || given.only.includes(name.split(sep)[0]))
    .sort()
    .filter((_, index) => index % Number(given.every) === 0)
  const projectOf = (name) => {
    const [first = ''] = name.split(sep)
    return name.includes(sep) && !existsSync(join(home, '.git')) ? join(home, first) : home
  }
  const all = []
  const waiting = files.map((name) => [join(home, name), projectOf(name)])
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const found = await outcome(...next)
      if (given.nvcc !== undefined && found.state !== 'no kernel') found.nvcc = askNvcc(found)
      all.push(found)
    }
  }
  await Promise.all(Array.from({ length: Number(given.jobs) }, work))
  all.sort((a, b) => (a.file < b.file ? -1 : 1))
  if (given.json !== undefined) writeFileSync(given.json, JSON.stringify(all, undefined, 1))
  summary(all)
  const refused = all
    .filter(({ state }) => state === 'refused')
    .map((each) => ({ ...each, where: relative(home, each.file) }))
  const [alone, others] = [refused.filter(isAlone), refused.filter((each) => !isAlone(each))]
  causes('Refused, though they need nothing else:', alone)
  causes('Refused, of those that need what is not here:', others)
  const kernels = all.flatMap(({ file, kernels }) =>
    kernels.map((each) => ({ ...each, where: `${relative(home, file)}: ${each.name}` })),
  )
  for (const [title, which] of [
    ['Not loaded:', 'not loaded'],
    ['Loaded, and not launched:', 'not launched'],
  ]) {
    const some = kernels.filter(({ state }) => state === which)
    causes(
      title,
      some.map((each) => ({ ...each, cause: each.why ?? each.state })),
    )
  }
}

if (given.file !== undefined) await judge(given.file, positionals[0])
else if (positionals.length === 1) await main(positionals[0])
else {
  console.log(
    'Usage: npm run public-kernels -- FOLDER [--only PROJECT] [--arch compute_80] [--every 5] [--nvcc PATH] [--seconds 60] [--json FILE]',
  )
  process.exitCode = 2
}
