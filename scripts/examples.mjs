// The examples that are projects of their own, each in an empty folder with the packed package: built, checked and run as their READMEs
// say. `npm install` runs once for all. Where NVRTC, Bun or Chromium is not here, what needs it is skipped, which is printed.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { delimiter, extname, join } from 'node:path'
import jpeg from 'jpeg-js'
import { chromium as playwright } from 'playwright-core'
import { findChromium } from '../dist/tests/helpers/chromium.js'
import { programOf, RUN_TIMES } from './run-times.mjs'
import { root } from './test-files.mjs'

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-examples-'))
const bin = join(folder, 'node_modules', '.bin')
const nvrtc = join(root, '.cache', 'cuda-toolkit', 'nvidia', 'cu13', 'lib')
const env = {
  ...process.env,
  ...(existsSync(nvrtc) && { CUDA_STREAMS_NVRTC: process.env.CUDA_STREAMS_NVRTC ?? nvrtc }),
  CUDA_STREAMS_DRIVER: 'sim',
  XDG_CACHE_HOME: join(folder, '.cache'),
}
/** As on a server that has no CUDA. */
const withoutNvrtc = { ...env, CUDA_STREAMS_NVRTC: join(folder, 'nowhere') }

const wanted = process.argv.slice(2)
const names = readdirSync(join(root, 'examples')).filter(
  (name) => existsSync(join(root, 'examples', name, 'package.json')) && (wanted.length === 0 || wanted.includes(name)),
)
const read = (...path) => readFileSync(join(folder, ...path), 'utf8')
const manifest = (name) => JSON.parse(read(name, 'package.json'))
/** What its README says that it prints. */
const printed = (name) => /```text\n(.*?)```/s.exec(read(name, 'README.md'))?.[1]

/** Runs a command in a project, and returns what it prints. */
function run(name, command, args, variables = env) {
  const path = { ...variables, PATH: `${bin}${delimiter}${process.env.PATH}` }
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: join(folder, name),
    encoding: 'utf8',
    env: path,
    timeout: 300_000,
  })
  if (status !== 0) throw new Error(`${name}: ${command} ${args.join(' ')}: ${error ?? ''}\n${stdout}${stderr}`)
  return stdout
}

const script = (name, which) => run(name, 'npm', ['run', '--silent', which])

/** Starts a command, which says an address when it listens; calls `use` with it, and ends the command. */
async function listening(name, command, args, use, variables = env) {
  const child = spawn(command, args, { cwd: join(folder, name), env: variables, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  try {
    const address = await new Promise((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (text) => {
          output += text
          // Colours may be within the address.
          // biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with one.
          const found = /http:\/\/localhost:\d+\S*/.exec(output.replace(/\x1b\[[\d;]*m/g, ''))
          if (found !== null) resolve(found[0])
        })
      child.on('close', (code) => reject(new Error(`${name}: ${command} ended with ${code}\n${output}`)))
    })
    return await use(address)
  } finally {
    child.kill()
  }
}

/** Opens a page in Chromium; what complains in it is an error. */
async function inBrowser(browser, address, use, expected = []) {
  const page = await browser.newPage()
  const problems = []
  page.on('pageerror', (error) => problems.push(String(error.stack)))
  page.on('console', (message) => {
    if (['warning', 'error'].includes(message.type())) problems.push(message.text())
  })
  page.on('requestfailed', (request) => problems.push(request.url()))
  try {
    await page.goto(address)
    await use(page)
  } catch (error) {
    throw new Error(`${address}: ${error.message}\n${problems.join('\n')}`)
  } finally {
    await page.close()
  }
  const unexpected = problems.filter((text) => !expected.some((pattern) => pattern.test(text)))
  assert.deepEqual(unexpected, [], `${address} complains`)
}

const says = (page, text) =>
  page.waitForFunction((wanted) => globalThis.document.querySelector('p')?.textContent?.includes(wanted), text, {
    timeout: 30_000,
  })

/** A server of static files. */
async function served(files, use) {
  const types = { '.html': 'text/html', '.js': 'text/javascript' }
  const server = createServer(({ url }, response) => {
    const file = join(files, url === '/' ? 'index.html' : url)
    response.statusCode = existsSync(file) ? 200 : 404
    response.setHeader('content-type', types[extname(file)] ?? 'text/plain')
    response.end(response.statusCode === 200 ? readFileSync(file) : undefined)
  })
  await new Promise((resolve) => server.listen(0, resolve))
  try {
    await use(`http://localhost:${server.address().port}/`)
  } finally {
    server.close()
  }
}

/** A build has the kernels' code, in which the doctor finds them, and neither their source nor their compiler. */
function checkBuild(name, file, { kernel, only }) {
  const bundle = read(name, file)
  const report = run(name, process.execPath, [join(bin, 'cuda-streams'), 'doctor', file])
  assert.match(report, new RegExp(`${kernel} \\(sm_75\\): device 0 runs them`))
  assert.match(bundle, new RegExp(`\\.entry ${kernel}\\b`), 'the PTX is in the bundle')
  for (const text of [...only, '-diag-suppress=177', 'numeric_limits'])
    assert.ok(!bundle.includes(text), `'${text}' is in the bundle`)
}

/** Runs the server and the page of the Triton example, and a page with all kernels of the tests. */
async function tritonExample() {
  const cached = join(root, '.cache', 'triton')
  const variables = { ...env, PORT: '0', ...(existsSync(cached) && { PYTHONPATH: process.env.PYTHONPATH ?? cached }) }
  const python = process.env.CUDA_STREAMS_PYTHON ?? 'python3'
  if (spawnSync(python, ['-c', 'import triton'], { env: variables }).status !== 0)
    return 'Triton is not here: node scripts/triton.mjs brings it'
  const started = ['--import', 'cuda-streams/cu/register', 'server.js']
  const answered = async (address) =>
    assert.equal(`${await (await fetch(address)).text()}\n`, printed('triton'), 'the server answers')
  await listening('triton', process.execPath, started, answered, variables)
  run('triton', 'npm', ['run', '--silent', 'build'], variables)
  run('triton', 'npm', ['run', '--silent', 'check'], variables)
  const tests = join(root, 'tests', 'cu', 'triton', 'files')
  for (const file of readdirSync(tests)) cpSync(join(tests, file), join(folder, 'triton', 'kernels', file))
  cpSync(join(root, 'dist', 'tests', 'cu', 'triton', 'cases.js'), join(folder, 'triton', 'kernels', 'cases.js'))
  writeFileSync(join(folder, 'triton', 'all.js'), ALL_KERNELS)
  writeFileSync(
    join(folder, 'triton', 'all.html'),
    '<!doctype html><p></p><script type="module" src="/all.js"></script>',
  )
  const executablePath = findChromium()
  if (executablePath === undefined) return 'built, and the server answers; there is no Chromium for the page'
  const browser = await playwright.launch({ executablePath, args: ['--no-sandbox'] })
  try {
    await served(join(folder, 'triton', 'dist'), (address) =>
      inBrowser(browser, address, (page) => says(page, printed('triton').trim())),
    )
    const vite = [join(bin, 'vite'), ['--port', '0']]
    await listening('triton', ...vite, (address) => inBrowser(browser, address, reloadedTriton), variables)
    await listening(
      'triton',
      ...vite,
      (address) =>
        inBrowser(browser, `${address}all.html`, (page) => says(page, 'all kernels are right'), LOADED_AGAIN),
      variables,
    )
  } finally {
    await browser.close()
  }
}

/** What Vite loads again once it has bundled a package that a module imports. */
const LOADED_AGAIN = [/\.(?:py|js)(?:\?|$)/, /Outdated Optimize Dep/]

/** A program of a page that runs the launches of the tests. */
const ALL_KERNELS = `import { Device, Stream } from 'cuda-streams'
import { CASES, fromF16 } from './kernels/cases.js'
const modules = import.meta.glob('./kernels/*.py', { eager: true })
const text = document.querySelector('p')
const stream = new Stream({ device: Device.get() })
let wrong = ''
for (const each of CASES) {
  const kernel = modules['./kernels/' + each.file][each.kernel]
  kernel.choose({ meta: kernel.configs[each.config ?? 0] })
  const args = each.arguments.map((given) => (typeof given === 'number' ? given : stream.bufferFrom(given)))
  stream.launch(kernel, { grid: [...each.grid] }, ...args)
  for (const [index, expected] of each.expected) {
    const found = await stream.download(args[index], each.arguments[index].constructor)
    const numbers = each.ofHalves ? Float32Array.from(found, fromF16) : found
    if (numbers.some((value, at) => !(Math.abs(value - expected[at]) <= each.error))) wrong += each.name + '; '
  }
}
text.textContent = wrong === '' ? 'all kernels are right' : 'wrong: ' + wrong
`

const EXAMPLES = {
  triton: tritonExample,

  'node-hook': () => assert.equal(script('node-hook', 'start'), printed('node-hook')),

  bun: () => {
    let bun
    try {
      bun = programOf(RUN_TIMES.find(({ name }) => name === 'bun'))
    } catch (error) {
      return `Bun cannot be installed (${error.message.split('\n')[0]})`
    }
    assert.equal(run('bun', bun, ['main.ts']), printed('bun'))
    script('bun', 'check')
  },

  'esbuild-server': async () => {
    script('esbuild-server', 'build')
    script('esbuild-server', 'check')
    checkBuild('esbuild-server', join('out', 'server.js'), {
      kernel: 'moments',
      only: ['the sum of their squares', 'const double *values'],
    })
    const variables = { ...withoutNvrtc, PORT: '0' }
    await listening(
      'esbuild-server',
      process.execPath,
      ['out/server.js'],
      async (address) => {
        const answer = await fetch(address)
        assert.equal(`${await answer.text()}\n`, printed('esbuild-server'))
      },
      variables,
    )
  },

  'image-server': async () => {
    const wheel = join(root, '.cache', 'onnxruntime', 'onnxruntime', 'capi')
    const named = process.env.CUDA_STREAMS_ONNXRUNTIME ?? (existsSync(wheel) ? wheel : undefined)
    if (named === undefined) return 'ONNX Runtime is not here: node scripts/onnxruntime.mjs brings it'
    const variables = { ...env, PORT: '0', CUDA_STREAMS_ONNXRUNTIME: named }
    const hook = ['--import', 'cuda-streams/cu/register']
    const photo = redBricks()
    await listening(
      'image-server',
      process.execPath,
      [...hook, 'server.js'],
      async (address) => {
        const send = (body) => fetch(address, { method: 'POST', body })
        const answers = await Promise.all([photo, photo, photo].map(send))
        for (const answer of answers) assert.equal(await answer.text(), printed('image-server'))
        const refused = await send('no file')
        assert.equal(refused.status, 400)
        assert.match(await refused.text(), /is no JPEG file/)
      },
      variables,
    )
    writeFileSync(join(folder, 'image-server', 'photo.jpg'), photo)
    const measured = run('image-server', process.execPath, [...hook, 'bench.js', 'photo.jpg', '8'], variables)
    assert.match(measured, /^cuda-streams: \S+ ms a file, of the processor \S+ ms, scores 0.869,0.053,0.079$/m)
    assert.match(measured, /^skipped: sharp and onnxruntime-node/m)
  },

  'vite-page': async () => {
    script('vite-page', 'build')
    script('vite-page', 'check')
    const assets = join('dist', 'assets')
    const [file] = readdirSync(join(folder, 'vite-page', assets)).filter((name) => name.endsWith('.js'))
    checkBuild('vite-page', join(assets, file), {
      kernel: 'mandelbrot',
      only: ['a colour for each number', 'steps < MOST', 'make_uchar4'],
    })
    const executablePath = findChromium()
    if (executablePath === undefined) return 'built; there is no Chromium to show it'
    const browser = await playwright.launch({ executablePath, args: ['--no-sandbox'] })
    try {
      await served(join(folder, 'vite-page', 'dist'), (address) =>
        inBrowser(browser, address, (page) => says(page, 'the middle is 0, 0, 255, 255')),
      )
      await listening('vite-page', join(bin, 'vite'), ['--port', '0'], (address) =>
        inBrowser(browser, address, reloaded, MISTAKE),
      )
    } finally {
      await browser.close()
    }
  },
}

/** A file of 320 x 200 pixels, as a photo of bricks. */
function redBricks() {
  const [width, height] = [320, 200]
  const data = Buffer.alloc(4 * width * height)
  for (let at = 0; at < width * height; at += 1) data.set([200 + (at % 20), 40, 50, 255], 4 * at)
  return jpeg.encode({ data, width, height }, 92).data
}

/** What Chromium and Vite say of a kernel with a mistake. */
const MISTAKE = [/500 \(Internal Server Error\)/, /mandelbrot\.cu\?import/, /Failed to reload \/mandelbrot\.cu/]

/** Saving a kernel draws again what it draws, without loading the page again; a mistake is shown over the page until it is mended. */
async function reloaded(page) {
  await says(page, 'the middle is 0, 0, 255, 255')
  await page.evaluate(() => Reflect.set(globalThis, 'stays', true))
  const kernel = join(folder, 'vite-page', 'mandelbrot.cu')
  const text = readFileSync(kernel, 'utf8')
  const save = (blue) => writeFileSync(kernel, text.replace('255 - shade / 3', blue))
  save('7')
  await says(page, 'the middle is 0, 0, 7, 255')
  save('unknown')
  const overlay = page.locator('vite-error-overlay')
  await overlay.waitFor({ timeout: 30_000 })
  const shown = await overlay.evaluate(({ shadowRoot }) => shadowRoot.querySelector('.window').textContent)
  assert.match(shown, /identifier "unknown" is undefined/)
  assert.match(shown, /mandelbrot\.cu:16:\d+/)
  save('9')
  await says(page, 'the middle is 0, 0, 9, 255')
  assert.equal(await overlay.count(), 0, 'the mistake is mended')
  assert.equal(await page.evaluate(() => Reflect.get(globalThis, 'stays')), true, 'the page was not loaded again')
}

/** Saving a kernel of Triton loads the page again, with what the kernel is then. */
async function reloadedTriton(page) {
  await says(page, printed('triton').trim())
  const kernel = join(folder, 'triton', 'softmax.py')
  const text = readFileSync(kernel, 'utf8')
  const begun = performance.now()
  writeFileSync(kernel, text.replace('powers / tl.sum', '2 * powers / tl.sum'))
  await says(page, 'a row adds up to 2.0000')
  console.log(`triton: ${((performance.now() - begun) / 1000).toFixed(1)} s from saving softmax.py to its running`)
  writeFileSync(kernel, text)
  await says(page, printed('triton').trim())
}

/** Installs the package and what the examples name; why not, if npm cannot reach its registry. */
function install() {
  const packed = run('.', 'npm', ['pack', root, '--ignore-scripts', '--json'])
  const wanted = names
    .map(manifest)
    .flatMap((each) => Object.entries({ ...each.dependencies, ...each.devDependencies }))
  const others = new Map(wanted.filter(([name]) => name !== 'cuda-streams'))
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  const packages = [...others].map(([name, version]) => `${name}@${version}`)
  const quiet = ['--no-audit', '--no-fund', '--no-package-lock', '--ignore-scripts', '--loglevel=error']
  run('.', 'npm', ['install', ...quiet, `./${JSON.parse(packed)[0].filename}`, ...packages])
}

try {
  mkdirSync(folder, { recursive: true })
  for (const name of names) cpSync(join(root, 'examples', name), join(folder, name), { recursive: true })
  assert.deepEqual(
    names.filter((name) => EXAMPLES[name] === undefined),
    [],
    'each example is run',
  )
  install()
  const { libraries } = JSON.parse(run('.', process.execPath, [join(bin, 'cuda-streams'), 'doctor', '--json']))
  for (const name of names) {
    const begun = performance.now()
    const lacksCompiler = name !== 'triton' && libraries.NVRTC.problem
    const skipped = lacksCompiler ? `skipped: ${lacksCompiler}` : await EXAMPLES[name]()
    console.log(`${name}: ${skipped ?? `as its README says (${((performance.now() - begun) / 1000).toFixed(1)} s)`}`)
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
