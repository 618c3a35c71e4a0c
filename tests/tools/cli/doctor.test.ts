/** `npx cuda-streams doctor`: what it says and how it ends, as text and as JSON, whatever is broken. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { simulate } from 'cuda-streams/sim'
import { LibraryVariable, VARIABLES } from '../../../src/foundation/base/environment-variables.js'
import { ALL_VARIABLES } from '../../../src/tools/cli/doctor.js'
import { COMMANDS } from '../../../src/tools/cli/help.js'
import { type Progress, progressIn, type Report, SEPARATOR, textOf } from '../../../src/tools/cli/report.js'
import { fakeCuda, fakeCupti } from '../../fake-driver/fake-cuda.js'
import { smallCubin } from '../../helpers/cubin.js'
import { installedProject, type Native, nativeIn } from '../../helpers/installed-project.js'
import { onMachine } from '../../helpers/machine.js'
import { root } from '../../helpers/root.js'
import { fakeLibraries } from '../../libraries/fake-libraries.js'

const MAIN = join('dist', 'src', 'tools', 'cli', 'main.js')
const LIBRARIES = Object.values(VARIABLES).filter((variable) => variable instanceof LibraryVariable)
/** The variables of those that the tests have fakes of. */
const FAKED = LIBRARIES.map(({ name }) => name).filter((name) => name !== 'CUDA_STREAMS_NVRTC')
const skip = process.platform === 'linux' ? false : 'the machines are told by files of Linux'
const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-doctor-'))
const fake = fakeCuda()
const noFakes = fakeLibraries()
const fakes = Object.fromEntries(FAKED.map((name) => [name, process.env[name]]))
for (const name of FAKED) delete process.env[name]
after(() => rmSync(folder, { recursive: true }))

interface Machine {
  readonly env?: NodeJS.ProcessEnv
  readonly fake?: true
  readonly native?: Native
  readonly options?: readonly string[]
}

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A machine without an NVIDIA driver, or with a fake one, runs the command. */
function run(args: readonly string[], { env, native, options = [], ...machine }: Machine = {}): Promise<Ended> {
  const installed = installedProject(folder, native)
  const project = join(installed, 'node_modules', 'cuda-streams')
  const variables: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    ...onMachine({ native: nativeIn(installed) }),
    ...(machine.fake && typeof fake !== 'string'
      ? { LD_LIBRARY_PATH: fake.env['LD_LIBRARY_PATH'], FAKE_BLOCK: '1' }
      : {}),
    ...env,
  }
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...options, join(project, MAIN), ...args],
      { env: variables, timeout: 60_000 },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    )
  })
}

/** As JSON, and as the text that the command makes of it: that it prints that has a test. */
async function doctor(machine: Machine, ...args: readonly string[]): Promise<Report & { readonly text: string }> {
  const { code, stdout, stderr } = await run(['doctor', '--json', ...args], machine)
  const report: Report = JSON.parse(stdout)
  assert.equal(code, report.ok ? 0 : 1, stderr)
  assert.equal(report.ok, report.problems.length === 0)
  assert.equal(stderr, '')
  const text = textOf(report)
  for (const problem of report.problems) assert.ok(text.includes(problem.split('\n')[0] ?? ''), problem)
  assert.equal(text.includes('Everything that is requested works.'), report.ok)
  assert.doesNotMatch(text, /\[3\dm|undefined|\[object|null/)
  return { ...report, text }
}

describe('the command', { concurrency: 2 }, () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  /** Each command, and the variables that are none. */
  const ALL = new RegExp(
    `^Usage: cuda-streams COMMAND.*${Object.keys(COMMANDS).join(' .*')} .*CUDA_STREAMS_TIMELINE=run.html node program.js`,
    's',
  )
  const rows: readonly (readonly [args: readonly string[], code: 0 | 2, said: RegExp])[] = [
    [['--help'], 0, ALL],
    [['doctor', '-h'], 0, /^Usage: cuda-streams doctor/],
    [['help', 'why'], 0, /^Usage: cuda-streams why/],
    [['sanitizer', '--help'], 0, ALL],
    [['--version'], 0, new RegExp(`^${version}\n$`)],
    [['-v'], 0, new RegExp(`^${version}\n$`)],
    [[], 0, ALL],
    [['help'], 0, ALL],
    [['why', '--out', 'a'], 2, /^why has no option --out\n\nUsage: cuda-streams why/],
    [
      ['nurse'],
      2,
      /^There is no command 'nurse': there are 'doctor', 'demo', 'compile', 'check', 'timeline', 'why', 'what-if', 'record', 'sanitize'\n/,
    ],
    [['constructor'], 2, /^There is no command 'constructor': there are 'doctor', .*\n\nUsage: cuda-streams COMMAND/],
    [['doctr'], 2, /^There is no command 'doctr': did you mean 'doctor'\?\n/],
    [
      ['timeline'],
      2,
      /^timeline needs one recording, which cuda-streams record writes, or CUDA_STREAMS_RECORD=run.rec for a program of this library\n/,
    ],
    [['doctor', 'me'], 2, /^doctor takes files with compiled kernels, \.js, \.ptx or \.cubin, not 'me'\n/],
    [['doctor', '--jason'], 2, /--jason/],
    [['doctor', '--timeout'], 2, /--timeout/],
    [['doctor', '--timeout', 'long'], 2, /^--timeout must be a number of seconds, not 'long'\n/],
    [['doctor', '--timeout', '0'], 2, /^--timeout must be/],
  ]
  for (const [args, code, said] of rows) {
    test(`${args.join(' ') || 'without arguments'} ends with ${code}`, async () => {
      const ended = await run(args)
      assert.equal(ended.code, code)
      assert.match(code === 0 ? ended.stdout : ended.stderr, said)
      assert.equal(code === 0 ? ended.stderr : ended.stdout, '')
    })
  }

  for (const [name, { options }] of Object.entries(COMMANDS)) {
    test(`${name} --help prints its own help, with each option and an example, and ends with 0`, async () => {
      const { code, stdout, stderr } = await run([name, '--help'])
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, new RegExp(`^Usage: cuda-streams ${name} `))
      const [help = '', examples = ''] = stdout.split(/^Examples?:$/m)
      for (const option of options) assert.match(help, new RegExp(`^  --${option} `, 'm'))
      assert.ok(examples.includes(`cuda-streams ${name}`), examples)
    })
  }

  test('is the file that package.json names', () => {
    const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    assert.deepEqual(bin, { 'cuda-streams': MAIN })
    assert.match(readFileSync(join(root, MAIN), 'utf8'), /^#!\/usr\/bin\/env node\n/)
  })
})

describe('the doctor', { skip, concurrency: 2 }, () => {
  test('finds the simulator on a machine without an NVIDIA driver', async () => {
    const report = await doctor({})
    assert.ok(report.ok)
    assert.deepEqual(report.driver, { name: 'sim', why: 'this machine has no NVIDIA driver' })
    assert.deepEqual(
      report.devices.map(({ works, memory }) => [works, memory]),
      [[true, simulate().devices[0]?.memory.total]],
    )
    assert.deepEqual(report.traces, [])
    assert.ok(report.native && 'version' in report.native && existsSync(report.native.file ?? ''))
    assert.match(report.text, /^✓ device 0 .*Simulated GPU, [\d.]+ GiB, .*the self-test passed$/m)
    assert.deepEqual(
      Object.keys(report.libraries),
      LIBRARIES.map(({ library }) => library.title.split(',')[0]),
    )
  })

  test('says which kernels of a build run on the devices', async () => {
    const ptx = (name: string, body: string): string =>
      `//\n// Made by hand\n//\n\n.version 8.5\n.target sm_75\n.address_size 64\n\n.visible .entry ${name}()\n{\n\t${body}\n\tret;\n}\n`
    const [app, wrong, empty] = ['app.js', 'wrong.ptx', 'empty.js'].map((name) => join(folder, name))
    assert.ok(app && wrong && empty)
    const [first, second] = [ptx('first', ''), ptx('second', '')]
    writeFileSync(app, `const a = \`\n${first}\`, b=${JSON.stringify(second)}; console.log(a, b)`)
    writeFileSync(wrong, ptx('third', 'nonsense.b32 1, 2;'))
    writeFileSync(empty, 'export {}')
    const good = await doctor({ env: { CUDA_STREAMS_SIM_DEVICES: '2' } }, app)
    assert.ok(good.ok, good.text)
    assert.deepEqual(
      good.kernels?.map(({ kernels, arch, device }) => [...kernels, arch, device]),
      [
        ['first', 'sm_75', 0],
        ['first', 'sm_75', 1],
        ['second', 'sm_75', 0],
        ['second', 'sm_75', 1],
      ],
    )
    assert.match(good.text, /^✓ .*app\.js +second \(sm_75\): device 1 runs them$/m)
    const bad = await doctor({}, wrong, empty)
    assert.match(bad.text, /^✗ .*wrong\.ptx +third \(sm_75\): device 0 does not run them$/m)
    assert.match(bad.problems[0] ?? '', /does not run third \(sm_75\): .*nonsense\.b32/)
    assert.match(bad.problems[1] ?? '', /empty\.js: there is no PTX in it, and no cubin/)
  })

  test('works without the native layer, and reports that once in full', async () => {
    const report = await doctor({ native: 'absent' })
    assert.ok(report.ok)
    assert.equal(report.driver?.name, 'sim')
    assert.match(report.text, /^– native layer .*dist\/native/m)
    assert.match(report.text, /^– NCCL +NCCL needs the native layer$/m)
  })

  test('fails with CUDA_STREAMS_DRIVER=cuda on a machine without CUDA', async () => {
    const report = await doctor({ env: { CUDA_STREAMS_DRIVER: 'cuda' } })
    assert.equal(report.driver?.name, null)
    assert.match(report.problems.join(), /^This machine has no NVIDIA driver/)
    assert.match(report.text, /^✗ driver +none: see below$/m)
    assert.deepEqual(report.variables['CUDA_STREAMS_DRIVER'], 'cuda')
  })

  test('tests each device', async () => {
    const env = {
      CUDA_STREAMS_DRIVER: 'sim',
      CUDA_STREAMS_SIM_DEVICES: '3',
      CUDA_STREAMS_SIM_MEMORY: String(3 * 2 ** 30),
    }
    const report = await doctor({ env })
    assert.deepEqual(
      report.devices.map(({ ordinal, works, memory }) => [ordinal, works, memory]),
      [
        [0, true, 3 * 2 ** 30],
        [1, true, 3 * 2 ** 30],
        [2, true, 3 * 2 ** 30],
      ],
    )
    assert.match(report.text, /^✓ device 2 .*Simulated GPU, 3\.0 GiB, /m)
    assert.equal(report.driver?.why, 'CUDA_STREAMS_DRIVER=sim')
  })

  test('reports variables whose value is wrong, that do not exist, or that name a file that does not exist', async () => {
    const wrong = await doctor({ env: { CUDA_STREAMS_DRIVER: 'gpu' } })
    assert.match(wrong.problems.join(), /^CUDA_STREAMS_DRIVER must be/)
    const unknown = await doctor({
      env: { CUDA_STREAMS_DRIVERS: 'cuda', CUDA_STREAM_SIM: '1', CUDA_STREAMS_TEST_SEED: '1' },
    })
    assert.deepEqual(unknown.problems.map((problem) => problem.split(':')[0]).sort(), [
      'There is no environment variable CUDA_STREAMS_DRIVERS',
      'There is no environment variable CUDA_STREAM_SIM',
    ])
    const named = await doctor({ env: { CUDA_STREAMS_NCCL: '/nowhere' } })
    assert.match(named.problems.join(), /^NCCL was not found: tried \/nowhere/)
  })

  test('says where code is cached, or why it is not, which is no fault', async () => {
    const cache = join(folder, 'caches')
    const own = join(cache, 'cuda-streams')
    const env = { XDG_CACHE_HOME: cache }
    const good = await doctor({ env })
    assert.deepEqual(good.cache, { folder: own })
    assert.ok(
      good.text.split('\n').some((line) => /^✓ cache +\S+$/.test(line) && line.endsWith(own)),
      good.text,
    )
    chmodSync(own, 0o777)
    const shared = await doctor({ env })
    assert.ok(shared.ok)
    assert.deepEqual(shared.cache, { problem: `${own} can be written by other users` })
    assert.match(shared.text, /^– cache +none, so \.cu files are compiled each time: .* by other users$/m)
  })

  test('leaves the file of a timeline alone', async () => {
    const file = join(folder, 'run.json')
    assert.ok((await doctor({ env: { CUDA_STREAMS_TIMELINE: file } })).ok)
    assert.ok(!existsSync(file))
  })

  test('finds the libraries', { skip: typeof noFakes === 'string' && noFakes }, async () => {
    const { libraries, ok } = await doctor({ env: fakes })
    const file = fakes['CUDA_STREAMS_NCCL'] ?? null
    assert.ok(ok)
    assert.deepEqual(libraries['cuBLAS'], { version: '13.14.15', file })
    assert.deepEqual(libraries['NCCL'], { version: '2.26.9', file })
  })

  test('reports what is not permitted to the process', async () => {
    const permission = Number(process.versions.node.split('.')[0]) < 22 ? '--experimental-permission' : '--permission'
    const { code, stdout } = await run(['doctor'], { options: [permission, '--allow-fs-read=*'] })
    assert.equal(code, 1)
    assert.match(stdout, /^ {2}The examination ended at this step: start\. Access to this API has been restricted/m)
  })

  describe('with a fake GPU', { skip: typeof fake === 'string' && fake }, () => {
    test('finds all of it', async () => {
      const nvrtc = typeof fake === 'string' ? '' : fake.env['CUDA_STREAMS_NVRTC']
      const report = await doctor({ fake: true, env: { CUDA_STREAMS_NVRTC: nvrtc } })
      assert.ok(report.ok, report.text)
      assert.deepEqual(report.driver, { name: 'cuda', why: 'the NVIDIA driver works' })
      assert.deepEqual(report.libcuda, { version: '13.0', file: nvrtc })
      assert.match(report.text, /^✓ native layer +linux-\w+-glibc: \//m)
      assert.deepEqual(report.libraries['NVRTC'], { version: '13.0', file: nvrtc })
      assert.deepEqual(report.traces, [nvrtc])
      assert.deepEqual(report.devices, [
        { ordinal: 0, name: 'Fake GPU', memory: 2 ** 36, computeCapability: '9.0', works: true },
      ])
      assert.match(report.text, /^✓ device 0 .*Fake GPU, 64\.0 GiB, compute capability 9\.0: the self-test passed$/m)
    })

    test('says which code of a build the GPU loads: the latest cubin that it runs, or the PTX', async () => {
      const ptx = (name: string): string =>
        `.version 8.5\n.target sm_75\n.address_size 64\n.visible .entry ${name}()\n{\n\tret;\n}\n`
      const build = (name: string, cubins: Readonly<Record<string, number>>, code = ptx(name)): string => {
        const file = join(folder, `${name}.js`)
        const own = Object.entries(cubins).map(
          ([key, architecture]) => `${key}: '${smallCubin({ architecture, kernels: [name] }).toString('base64')}'`,
        )
        writeFileSync(file, `const ptx = \`${code}\`, cubins = { ${own.join(', ')} }`)
        return file
      }
      const alone = join(folder, 'alone.cubin')
      writeFileSync(alone, smallCubin({ architecture: 80, kernels: ['alone'] }))
      const files = [
        build('fits', { sm_80: 80, sm_90: 90, sm_100: 100 }),
        build('special', { sm_90: 90, sm_90a: 90 }),
        build('tooNew', { sm_92: 92 }),
        build('otherMajor', { sm_80: 80, sm_89: 89 }),
        build('none', {}),
      ]
      const good = await doctor({ fake: true }, ...files)
      assert.ok(good.ok, good.text)
      assert.deepEqual(
        good.kernels?.map(({ kernels, arch, cubins, loads }) => [...kernels, arch, cubins.join(), loads]),
        [
          ['fits', 'sm_75', 'sm_80,sm_90,sm_100', 'sm_90'],
          ['special', 'sm_75', 'sm_90,sm_90a', 'sm_90a'],
          ['tooNew', 'sm_75', 'sm_92', 'ptx'],
          ['otherMajor', 'sm_75', 'sm_80,sm_89', 'ptx'],
          ['none', 'sm_75', '', 'ptx'],
        ],
      )
      assert.match(
        good.text,
        /fits\.js +fits \(sm_75, cubins for sm_80, sm_90, sm_100\): device 0 runs them, from the cubin for sm_90$/m,
      )
      assert.match(good.text, /tooNew \(sm_75, a cubin for sm_92\): device 0 runs them, from the PTX$/m)
      assert.match(good.text, /none \(sm_75\): device 0 runs them$/m)
      const bad = await doctor({ fake: true }, alone, build('fake', { sm_90: 86 }))
      assert.deepEqual(
        bad.kernels?.map(({ loads }) => loads),
        [null, 'sm_90'],
      )
      assert.match(bad.text, /^✗ .*alone\.cubin +alone \(a cubin for sm_80\): device 0 does not run them$/m)
      const [first = '', second = ''] = bad.problems
      assert.match(first, /does not run alone \(a cubin for sm_80\): a GPU of compute capability 9\.0 runs /)
      assert.match(first, /compile for it, too, by `--cubin sm_90`, or keep the PTX$/)
      assert.match(second, /what the program has as its cubin for sm_90 is one for sm_86: compile it again$/)
      const simulated = await doctor({}, files[0] ?? '', alone)
      assert.match(simulated.text, /^✓ .*fits .*device 0 runs them, from the PTX$/m)
      assert.match(simulated.problems.join(), /the simulator runs PTX, and there is machine code alone/)
    })

    test('finds CUPTI, says what it is for, and takes no version for found that timelines do not know', async () => {
      const file = fakeCupti()
      const missing = await doctor({ fake: true, env: { CUDA_STREAMS_CUPTI: '/nowhere/libcupti.so' } })
      assert.match(
        missing.problems.join(),
        /^CUPTI, which tells of other libraries' work, was not found: tried \/nowhere/,
      )
      assert.match(missing.text, /^– CUPTI .*nvidia-cuda-cupti/m)
      const { libraries, ok, text } = await doctor({ fake: true, env: { CUDA_STREAMS_CUPTI: file } })
      assert.ok(ok)
      assert.deepEqual(libraries['CUPTI'], { version: '130001', file })
      assert.match(text, /^✓ CUPTI +130001 \(timelines of other libraries' work need it\): \//m)
      const old = await doctor({ fake: true, env: { CUDA_STREAMS_CUPTI: file, FAKE_CUPTI_VERSION: '22' } })
      assert.match(old.problems.join(), /^This CUPTI is of version 22; those of CUDA 12\.5 to 13 are known/)
    })

    test('is not confused by what libraries print', async () => {
      const report = await doctor({ fake: true, env: { FAKE_SAYS: '{"step":"end"}\n{ a half line' } })
      assert.ok(report.ok)
      assert.equal(report.devices.length, 1)
    })

    const rows: readonly (readonly [title: string, env: NodeJS.ProcessEnv, problem: RegExp])[] = [
      ['too old', { FAKE_VERSION: '12020' }, /for CUDA 12\.2, is too old/],
      ['without a device', { FAKE_INIT: '100' }, /CUDA_ERROR_NO_DEVICE/],
      ['that hangs', { FAKE_INIT: '-1' }, /this step: choice of the driver\. It took longer than 8 s$/],
      ['that crashes', { FAKE_INIT: '-2' }, /choice of the driver\. The process ended with SIGABRT\. .*cuInit crashes/],
      [
        'that loses copies',
        { FAKE_FORGETS: '1' },
        /^The self-test of device 0 \(Fake GPU\) failed: 1048576 of 1048576 bytes are wrong$/,
      ],
    ]
    for (const [title, env, problem] of rows) {
      test(`finds one ${title}`, async () => {
        // Time enough for a busy machine to start Node in, which is a step too.
        const report = await doctor({ fake: true, env }, '--timeout', '8')
        assert.equal(report.problems.length, 1, report.text)
        assert.match(report.problems[0] ?? '', problem)
        assert.ok(report.native && report.libcuda, 'what was found before is there')
      })
    }
  })
})

test('a damaged cubin is a problem of its own, and the rest is examined', { skip }, async () => {
  const file = join(folder, 'damaged.cubin')
  // 240 bytes of symbols and names, whose header says that there are 65 535 tables of them, all at one place.
  const code = smallCubin({ architecture: 80, kernels: ['a', 'b', 'c'] }).subarray(0, 240)
  code.writeBigUInt64LE(64n, 40)
  code.writeUInt16LE(0, 58)
  code.writeUInt16LE(0xffff, 60)
  writeFileSync(file, code)
  const { problems, libraries } = await doctor({}, file)
  assert.deepEqual(problems, [
    `${file}: it is a damaged cubin: it says that the header of a section has 0 bytes, which has 64`,
  ])
  assert.ok(Object.keys(libraries).length > 5)
})

test('a line of the examination that is cut off anywhere names the step that did not finish, or is left out', () => {
  const before: Progress = { step: 'start', found: { devices: [], libraries: {}, problems: [] } }
  const now: Progress = { step: 'a "file" \\ of\n3', found: { ...before.found, problems: ['one', 'two'] } }
  const line = `printed by a library ${SEPARATOR}${JSON.stringify(now)}`
  const named = line.indexOf(',"found"')
  for (let length = 0; length < line.length; length += 1) {
    const read = progressIn(line.slice(0, length), before)
    assert.deepEqual(read, length < named ? undefined : { step: now.step, found: before.found }, line.slice(0, length))
  }
  assert.deepEqual(progressIn(line, before), now)
})

test('each line is judged, and PATH and HOME are left out', { skip }, async () => {
  const good = await doctor({ env: { HOME: folder, CUDA_STREAMS_SIM_DEVICES: '2' } })
  assert.match(good.text, /^✓ CUDA_STREAMS_SIM_DEVICES +2$/m)
  assert.doesNotMatch(good.text, /^. (PATH|HOME)\b/m)
  const bad = await doctor({ env: { CUDA_STREAMS_SIM_DEVICES: 'two' } })
  assert.match(bad.text, /^✗ CUDA_STREAMS_SIM_DEVICES +two$/m)
  for (const { text } of [good, bad]) {
    const lines = text.split('\n').slice(2)
    for (const line of lines.slice(0, lines.indexOf(''))) assert.match(line, /^[✓–✗] /)
  }
})

test('what is missing is a line with the way out; --verbose names the files that were looked for, as the JSON does', {
  skip,
}, async () => {
  const machine = { env: { PATH: folder, LD_LIBRARY_PATH: '' } }
  const [{ stdout: brief }, { stdout: verbose }, report] = await Promise.all([
    run(['doctor'], machine),
    run(['doctor', '--verbose'], machine),
    doctor(machine),
  ])
  const missing = Object.entries(report.libraries).filter(([, part]) => 'brief' in part)
  assert.ok(missing.length > 0, brief)
  for (const [name, part] of missing) {
    assert.ok('brief' in part)
    assert.match(part.problem, /was not found: tried /)
    assert.ok(part.problem.includes(part.brief?.replace('not found. ', '') ?? 'nothing'), part.problem)
    const line = (text: string): string => text.split('\n').find((one) => one.startsWith(`– ${name}`)) ?? ''
    assert.ok(line(brief).endsWith(part.brief ?? 'nothing'), line(brief))
    assert.ok(line(brief).length < 180, line(brief))
    assert.ok(line(verbose).endsWith(part.problem), line(verbose))
  }
  assert.match(brief, /--verbose names the files that were looked for\.$/m)
  assert.doesNotMatch(verbose, /--verbose/)
})

test('of a library that is there and cannot be loaded the whole reason is told', { skip }, async () => {
  const broken = mkdtempSync(join(folder, 'broken-'))
  const file = join(broken, 'libnccl.so.2')
  writeFileSync(file, 'no library')
  const { stdout } = await run(['doctor'], { env: { CUDA_STREAMS_NCCL: file } })
  assert.match(stdout, /^– NCCL +NCCL was not found: tried .*libnccl\.so\.2 \(/m)
})

test('the text and the JSON say the same, and end alike', { skip }, async () => {
  for (const driver of ['sim', 'gpu']) {
    const machine = { env: { CUDA_STREAMS_DRIVER: driver } }
    const [shown, { text, ok }] = await Promise.all([run(['doctor'], machine), doctor(machine)])
    assert.deepEqual(shown, { code: ok ? 0 : 1, stdout: `${text}\n`, stderr: '' })
  }
})

test('colours are for terminals that have them', () => {
  const report = { ...JSON.parse(jsonOfThePage()), problems: ['one'] }
  const { stdout } = process
  const before = { isTTY: stdout.isTTY, hasColors: stdout.hasColors }
  try {
    Object.assign(stdout, { isTTY: true, hasColors: () => true })
    assert.ok(textOf(report).includes('\u001b[32m✓\u001b[39m'))
    Object.assign(stdout, { hasColors: () => false })
    assert.ok(!textOf(report).includes('\u001b'))
  } finally {
    Object.assign(stdout, before)
  }
})

const page = (): string => readFileSync(join(root, 'docs', 'guides', 'doctor.md'), 'utf8')
const jsonOfThePage = (): string => /^```json\n([\s\S]*?)^```/m.exec(page())?.[1] ?? ''

test('docs/guides/doctor.md shows the shape of the report, and the text of that report', { skip }, async () => {
  const shown: Report = JSON.parse(jsonOfThePage())
  assert.ok(page().includes(`\n${textOf(shown)}\n`), textOf(shown))
  const { text: _, ...found } = await doctor({})
  /** Names and kinds of all that is in it; variables are anybody's. */
  const shape = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.slice(0, 1).map(shape)
      : typeof value === 'object' && value !== null && !('problem' in value)
        ? Object.fromEntries(
            Object.entries(value).map(([key, member]) => [key, key === 'variables' ? {} : shape(member)]),
          )
        : 0
  assert.deepEqual(
    shape({ ...found, traces: [], problems: [], libcuda: 0, libraries: 0 }),
    shape({ ...shown, traces: [], problems: [], libcuda: 0, libraries: 0 }),
  )
})

test('docs/reference/environment.md and the doctor have the same variables', () => {
  const text = readFileSync(join(root, 'docs', 'reference', 'environment.md'), 'utf8')
  const [, section = ''] = text.split(/^## Of the library$/m)
  const tables = (section.split(/^## /m)[0] ?? '').split(/^### What `auto` takes$[\s\S]*?(?=^### )/m).join('')
  const names = [...tables.matchAll(/^\|([^|]*)\|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([A-Z]\w+)`/g)].map(([, name]) => name),
  )
  // What they say is the machine's own, and a report is shown to others.
  const ofMachine = ['HOME', 'PATH', 'APPDATA', 'ProgramFiles']
  // Test runners set these in their own processes, and the doctor is in none.
  const ofRunners = ['NODE_ENV', 'NODE_TEST_CONTEXT']
  const silent = [...ofMachine, ...ofRunners]
  // One may be read for two things.
  assert.deepEqual([...new Set(names)].toSorted(), [...ALL_VARIABLES, ...silent].toSorted())
})
