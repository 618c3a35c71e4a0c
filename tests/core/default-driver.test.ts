/**
 * B1: a GPU is never simulated by accident. Each case of the lists in docs/reference/environment.md is tried in a process of its own,
 * in a project that has the library installed, with each value of CUDA_STREAMS_DRIVER.
 */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { fakeCuda } from '../fake-driver/fake-cuda.js'
import { installedProject, type Native, nativeIn } from '../helpers/installed-project.js'
import { type Machine, onMachine } from '../helpers/machine.js'
import { root } from '../helpers/root.js'

/** What a row needs that not every machine has. */
type Libcuda = 'fake' | { readonly c: string } | { readonly bytes: string }

interface Row {
  /** As in the first column of the table. */
  readonly title: string
  /** What the error says, by any value but sim; nothing where auto is the simulator. */
  readonly error?: RegExp
  readonly native?: Native
  readonly libcuda?: Libcuda
  readonly machine?: Machine
  readonly env?: Readonly<Record<string, string>>
  readonly options?: readonly string[]
  /** The process is left as it is: only what it may read differs. */
  readonly asIs?: true
}

const NODE = Number(process.versions.node.split('.')[0])
const PERMISSION = NODE < 22 ? '--experimental-permission' : '--permission'
const LIBRARY = '/usr/lib/x86_64-linux-gnu/libcuda.so.1'
const DRIVER = {
  files: { [LIBRARY]: '', '/dev/nvidiactl': '', '/proc/driver/nvidia/version': 'Module  580.159.04  Mon' },
}

const NONE = 'there is no NVIDIA driver'
const NO_LAYER = 'the native layer is not there: a bundle without it, a checkout built without a C compiler'
const BAD_LAYER = 'the file of the native layer does not load'
const NOT_FOR = 'the native layer is not made for the platform (Windows on ARM)'
const CAGED = 'the run time allows no ArrayBuffer over memory of C: Electron'
const NO_ADDONS = 'Node runs with `--permission` but without `--allow-addons`, or with `--no-addons`'
const NO_LOOKING = 'Node or Deno may not look whether there is a driver'
const NO_LIBRARY =
  'the kernel has the driver, but libcuda is not there: a container without a GPU, or without `compute`'
const UNLOADABLE = 'libcuda is there and does not load: no library, of another architecture, lacks a symbol, on musl'
const TOO_OLD = 'libcuda is for a CUDA older than 12.5'
const NO_START = '`cuInit` fails: no device (100), a stub (34), another version in the kernel (803), any other result'
const HIDDEN = '`CUDA_VISIBLE_DEVICES` hides all devices, also as an empty string or `-1`'
const OTHER_SYSTEM = 'the platform has no CUDA (macOS)'

const started = (result: number, error: RegExp): Row => ({
  title: NO_START,
  libcuda: 'fake',
  env: { FAKE_INIT: String(result) },
  error,
})

const ROWS: readonly Row[] = [
  { title: NONE },
  { title: NONE, native: 'absent' },
  { title: NONE, native: 'another file' },
  { title: NONE, machine: { musl: true } },
  { title: NONE, machine: { platform: 'win32' } },
  { title: NONE, options: ['--no-addons'] },
  { title: NONE, env: { CUDA_VISIBLE_DEVICES: '' } },
  { title: NONE, libcuda: { c: 'int unused;' }, env: { LD_LIBRARY_PATH: '/nowhere::' } },
  { title: OTHER_SYSTEM, machine: { platform: 'darwin' } },
  { title: OTHER_SYSTEM, machine: { platform: 'darwin' }, native: 'absent' },
  {
    title: NO_LAYER,
    native: 'absent',
    machine: DRIVER,
    error: /libcuda\.so\.1, .*nvidiactl.*dist\/native.*npm run build/,
  },
  { title: BAD_LAYER, native: 'another file', machine: DRIVER, error: /Install cuda-streams again.*too short/ },
  {
    title: NOT_FOR,
    machine: { platform: 'win32', arch: 'ia32', files: { 'C:\\Windows/System32/nvcuda.dll': '' } },
    env: { SystemRoot: 'C:\\Windows' },
    error:
      /System32\/nvcuda\.dll.* made for linux-x64, linux-arm64, win32-x64, win32-arm64, and this is win32-ia32.*WSL 2/,
  },
  { title: CAGED, native: 'caged', machine: DRIVER, error: /cage of V8, as Electron does.*fork\(\).*execPath/ },
  { title: NO_ADDONS, machine: DRIVER, options: [PERMISSION, '--allow-fs-read=*'], error: /--allow-addons/ },
  { title: NO_ADDONS, machine: DRIVER, options: ['--no-addons'], error: /without --no-addons/ },
  {
    title: NO_LOOKING,
    asIs: true,
    options: [PERMISSION],
    error: /Cannot find out .*: access to \/.* is not permitted\. .*--allow-fs-read=\*/,
  },
  { title: NO_LIBRARY, machine: { files: { '/dev/nvidiactl': '' } }, error: /NVIDIA_DRIVER_CAPABILITIES/ },
  { title: NO_LIBRARY, machine: { files: { '/proc/driver/nvidia/version': '' } }, error: /--gpus all/ },
  { title: NO_LIBRARY, machine: { files: { '/dev/nvmap': '' } }, error: /\/dev\/nvmap.*libcuda\.so\.1 is not here/ },
  { title: UNLOADABLE, machine: DRIVER, error: /x86_64-linux-gnu\/libcuda\.so\.1: .*Exec format error/ },
  { title: UNLOADABLE, machine: { ...DRIVER, musl: true }, error: /Exec format error; this is musl/ },
  {
    title: UNLOADABLE,
    machine: { files: { '/usr/lib/wsl/lib/libcuda.so.1': '' } },
    error: /\/wsl\/lib\/libcuda\.so\.1:/,
  },
  {
    title: UNLOADABLE,
    machine: { files: { '/etc/ld.so.cache': 'x\0/opt/cuda/libcuda.so.1\0y', '/opt/cuda/libcuda.so.1': '' } },
    error: /\/opt\/cuda\/libcuda\.so\.1: .*Exec format error/,
  },
  { title: UNLOADABLE, libcuda: { bytes: '' }, error: /libcuda\.so\.1: .*too short/ },
  { title: UNLOADABLE, libcuda: { bytes: 'no library '.repeat(99) }, error: /libcuda\.so\.1: .*invalid ELF header/ },
  { title: UNLOADABLE, libcuda: { c: 'void gone(void); void f(void) { gone(); }' }, error: /undefined symbol: gone/ },
  { title: TOO_OLD, libcuda: { c: 'int unused;' }, error: /libcuda lacks cuInit: CUDA 12\.5 or later.* 555/ },
  {
    title: TOO_OLD,
    libcuda: { c: 'int cuInit(int f) { return f; } int cuDriverGetVersion(int *v) { *v = 12060; return 0; }' },
    error: /libcuda\.so\.1, for CUDA 12\.6, lacks cuDeviceGetCount/,
  },
  {
    title: TOO_OLD,
    libcuda: 'fake',
    env: { FAKE_VERSION: '12020' },
    error: /libcuda\.so\.1, for CUDA 12\.2, is too old: CUDA 12\.5 or later.* 555/,
  },
  started(3, /libcuda\.so\.1, for CUDA 13\.0, does not start: .*CUDA_ERROR_NOT_INITIALIZED \(3\)\. nvidia-smi/),
  started(34, /CUDA_ERROR_STUB_LIBRARY \(34\)\. .*LD_LIBRARY_PATH/),
  started(35, /CUDA_ERROR_35 \(35\)\. nvidia-smi/),
  started(100, /CUDA_ERROR_NO_DEVICE \(100\)\. .*--gpus all/),
  { ...started(100, /nvidia-smi -L/), machine: DRIVER },
  started(101, /CUDA_ERROR_INVALID_DEVICE \(101\)\. .*CUDA_VISIBLE_DEVICES/),
  started(304, /CUDA_ERROR_OPERATING_SYSTEM \(304\)\. .*permissions of \/dev\/nvidia/),
  started(802, /CUDA_ERROR_SYSTEM_NOT_READY \(802\)\. .*fabric/),
  started(803, /CUDA_ERROR_SYSTEM_DRIVER_MISMATCH \(803\)\. .*restart/),
  started(804, /CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE \(804\)\. .*cuda-compat/),
  started(805, /CUDA_ERROR_MPS_CONNECTION_FAILED \(805\)\. .*MPS/),
  started(999, /CUDA_ERROR_UNKNOWN \(999\)\. .*nvidia_uvm/),
  ...['', '-1', '7'].map((CUDA_VISIBLE_DEVICES) => ({
    title: HIDDEN,
    libcuda: 'fake' as const,
    env: { FAKE_INIT: '100', CUDA_VISIBLE_DEVICES },
    error: new RegExp(`\\(100\\)\\. CUDA_VISIBLE_DEVICES is '${CUDA_VISIBLE_DEVICES}', .*unset it`),
  })),
]

const skip = process.platform === 'linux' ? false : 'the machines are told by files of Linux'
const fake = fakeCuda()
const compiler = spawnSync('cc', ['--version']).error?.message
const child = fileURLToPath(new URL('./choose-child.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-choice-'))
after(() => rmSync(folder, { recursive: true }))

/** The folder of a libcuda, or why it cannot be made. */
function folderOf(libcuda: Libcuda, nth: number): { readonly path: string } | string {
  if (libcuda === 'fake') return typeof fake === 'string' ? fake : { path: fake.env['LD_LIBRARY_PATH'] ?? '' }
  const path = join(folder, `libcuda ${nth}`)
  const file = join(path, 'libcuda.so.1')
  mkdirSync(path, { recursive: true })
  if ('bytes' in libcuda) {
    writeFileSync(file, libcuda.bytes)
    return { path }
  }
  if (compiler !== undefined) return compiler
  writeFileSync(join(path, 'libcuda.c'), libcuda.c)
  const { status, stderr } = spawnSync('cc', ['-shared', '-fPIC', '-o', file, join(path, 'libcuda.c')])
  assert.equal(status, 0, String(stderr))
  return { path }
}

async function chosenBy(
  { native, libcuda, machine, env, options = [], asIs }: Row,
  nth: number,
): Promise<Chosen | string> {
  const found = libcuda === undefined ? undefined : folderOf(libcuda, nth)
  if (typeof found === 'string') return found
  const project = installedProject(folder, native)
  const variables: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    ...(asIs ? {} : onMachine({ ...machine, native: nativeIn(project, machine?.musl ? 'musl' : 'glibc') })),
    ...(found === undefined ? {} : { LD_LIBRARY_PATH: found.path }),
    ...env,
  }
  const readable = asIs ? [folder, join(root, 'dist')].map((path) => `--allow-fs-read=${path}`) : []
  const library = join(project, 'node_modules', 'cuda-streams', 'dist', 'src', 'entry-points', 'index.js')
  const { stdout } = await promisify(execFile)(process.execPath, [...options, ...readable, child, library], {
    env: variables,
  })
  return JSON.parse(stdout)
}

type Chosen = Readonly<Record<'cuda' | 'unset' | 'auto' | 'sim' | 'warnings', string>>

test('B1 the lists in docs/reference/environment.md have these cases', () => {
  const page = readFileSync(join(root, 'docs', 'reference', 'environment.md'), 'utf8')
  const [, section = ''] = page.split(/^### What `auto` takes$/m)
  const lists = section.split(/^##/m, 1)[0]?.split(/^It throws `ERR_NO_DRIVER` if$/m) ?? []
  const found = lists.map((list) => new Set([...list.matchAll(/^- (.*)$/gm)].map(([, title]) => title)))
  const titles = (throws: boolean) =>
    new Set(ROWS.filter(({ error }) => (error !== undefined) === throws).map(({ title }) => title))
  assert.deepEqual(found, [titles(false), titles(true)])
})

describe('B1 on a machine where', { skip, concurrency: 2 }, () => {
  for (const [nth, row] of ROWS.entries()) {
    const { title, error, machine, env, native } = row
    const details = [native, machine && JSON.stringify(machine), env && JSON.stringify(env)].filter(Boolean).join(' ')
    test(`B1 ${title} (${nth} ${details})`, async (t) => {
      const chosen = await chosenBy(row, nth)
      if (typeof chosen === 'string') return t.skip(chosen)
      assert.match(chosen.cuda, /^ERR_NO_DRIVER: /)
      assert.match(chosen.cuda, /set CUDA_STREAMS_DRIVER=sim$/)
      if (error === undefined) {
        assert.deepEqual([chosen.unset, chosen.auto, chosen.sim], ['sim', 'sim', 'sim'])
        assert.match(chosen.warnings, /^Using the simulated GPU, since this machine has no NVIDIA driver$/)
      } else {
        assert.match(chosen.cuda, error)
        assert.deepEqual([chosen.unset, chosen.auto], [chosen.cuda, chosen.cuda])
        assert.equal(chosen.sim, 'sim')
        assert.equal(chosen.warnings, '')
      }
    })
  }
})

test('B1 a wrong variable of a driver that works is no reason to simulate', async (t) => {
  const row = { title: '', libcuda: 'fake', env: { CUDA_STREAMS_DEADLOCK_TIMEOUT: 'soon' } } as const
  const chosen = await chosenBy(row, ROWS.length)
  if (typeof chosen === 'string') return t.skip(chosen)
  for (const value of ['cuda', 'unset', 'auto'] as const) assert.match(chosen[value], /^ERR_INVALID_ARG_VALUE: /)
})
