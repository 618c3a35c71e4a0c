// The playground in a real browser: each lesson is run, its bug found, fixed and found clean; the editor, the address, stepping, time, an endless
// loop; contrast and names by axe-core. PLAYGROUND_SCREENSHOTS names a folder for pictures.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { findChromium, NO_CHROMIUM } from '../../../dist/tests/helpers/chromium.js'
import { ofTheDay } from '../../../dist/tests/helpers/of-the-day.js'
import { launch, serve } from './serve.mjs'

const skip = findChromium() === undefined ? NO_CHROMIUM : false
const SCREENSHOTS = process.env['PLAYGROUND_SCREENSHOTS']
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const DESKTOP = { width: 1440, height: 900 }
const PHONE = { width: 390, height: 844 }
const OVER = /Nothing found|findings?;|errors?;|Fixed|no program|Stopped|cannot be|waits forever/

/** Which the advised line fixes; for the others a person has to think. */
const LESSONS = [
  ['first-kernel', 'advice'],
  ['two-streams', 'advice'],
  ['events', 'advice'],
  ['null-stream', 'advice'],
  ['pinned-staging', 'advice'],
  ['host-functions', 'advice'],
  ['graphs', 'advice'],
  ['foreign-stream', 'advice'],
  ['freed-memory', 'advice'],
  ['triple-buffer', 'advice'],
  ['no-overlap', 'solution'],
  ['out-of-bounds', 'solution'],
  ['shared-memory', 'solution'],
  ['signature', 'solution'],
  ['coalescing', 'solution'],
  ['bank-conflicts', 'solution'],
  ['divergence', 'solution'],
]

/** The lessons in which only the numbers of a kernel are bad: what is said of a line with the bug, the note beside it, and both once it is fixed. */
const COUNTED = {
  coalescing: {
    bug: [/line 6\s+global memory: 32 sectors a request; 4 would do/, '32 sectors, 4 would do'],
    fixed: [/line 8\s+global memory: 4 sectors a request, as few as can be/, '4 sectors'],
  },
  'bank-conflicts': {
    bug: [
      /line 8\s.*\s+shared memory: 31 bank conflicts a request, which takes 32 passes where 1 would do/,
      '31 bank conflicts',
    ],
    fixed: [/line 8\s.*\s+shared memory: no bank conflicts/, 'no bank conflicts'],
  },
  divergence: {
    bug: [/line 9\s.*\s+branches: 47 of 64 divide a warp/, '47 of 64 diverge'],
    fixed: [/line 9\s.*\s+branches: 5 of 64 divide a warp/, '5 of 64 diverge'],
  },
}

/** A kernel of which each thread prints its number, by printf(). */
const PRINTING = `import { defineKernel, Stream } from 'cuda-streams'
const ptx = \`.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 values);
.global .align 1 .b8 text[11] = {116, 104, 114, 101, 97, 100, 32, 37, 100, 10};
.visible .entry greet()
{
  .local .align 8 .b8 frame[8];
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  st.local.u32 [frame], %r1;
  mov.u64 %rd1, text;
  cvta.global.u64 %rd2, %rd1;
  mov.u64 %rd3, frame;
  cvta.local.u64 %rd3, %rd3;
  {
    .param .b64 a;
    st.param.b64 [a], %rd2;
    .param .b64 b;
    st.param.b64 [b], %rd3;
    .param .b32 c;
    call.uni (c), vprintf, (a, b);
    ld.param.b32 %r2, [c];
  }
  ret;
}\`
const stream = new Stream()
stream.launch(defineKernel({ name: 'greet', ptx, signature: [] }), { grid: 1, block: 2 })
await stream.finished()
`

/** A program whose kernel is typed in a tab. */
const OWN = `import { Stream } from 'cuda-streams'
import { greet } from './own.cu'
const stream = new Stream()
stream.launch(greet, { grid: 1, block: 2 })
await stream.finished()
`

/** What the parameters of an entry are when no source says so. */
const SCALE = `.version 7.0
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 values, .param .f32 factor, .param .s32 n)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [values];
  ld.param.f32 %f1, [factor];
  ld.param.s32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.s32 %p, %r2, %r1;
  @%p ret;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f2, [%rd2];
  mul.f32 %f2, %f2, %f1;
  st.global.f32 [%rd2], %f2;
  ret;
}
.visible .entry whole(.param .align 4 .b8 matrix[36])
{
  ret;
}
`

describe('the playground, in Chromium', { skip, timeout: 300_000 }, () => {
  let server
  let browser
  let page
  const problems = []

  before(async () => {
    server = await serve()
    browser = await launch()
    if (SCREENSHOTS !== undefined) mkdirSync(SCREENSHOTS, { recursive: true })
  })
  after(async () => {
    await browser?.close()
    server?.close()
    assert.deepEqual(problems, [])
  })
  /** The page that the test is about, in place of that of the test before. */
  async function show(...given) {
    await page?.close()
    page = await open(...given)
  }

  async function open(hash = '', viewport = DESKTOP, colorScheme = 'light') {
    const opened = await browser.newPage({ viewport, colorScheme })
    opened.on('console', (message) => problems.push(`${message.type()}: ${message.text()}`))
    opened.on('pageerror', (error) => problems.push(error.message))
    opened.on('request', (request) => {
      if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(server.origin))
        problems.push(`asks for ${request.url()}`)
    })
    await opened.goto(`${server.origin}/playground/${hash}`)
    await opened.waitForFunction(() => !/^Loading/.test(document.getElementById('status').textContent))
    return opened
  }

  const status = (on = page) => on.textContent('#status')
  async function over(on = page) {
    await on.waitForFunction(
      (pattern) => new RegExp(pattern).test(document.getElementById('status').textContent),
      OVER.source,
    )
    return status(on)
  }
  async function run(on = page) {
    await on.click('#run')
    return over(on)
  }
  const text = (on = page) =>
    on.evaluate(
      () =>
        document.querySelector('.cm-content').cmTile?.view.state.doc.toString() ??
        document.querySelector('.cm-content').innerText,
    )
  async function write(code) {
    await page.click('.cm-content')
    await page.keyboard.press('Control+a')
    await page.keyboard.press('Delete')
    await page.keyboard.insertText(code)
  }
  const picture = async (name, on = page) => {
    if (SCREENSHOTS !== undefined) await on.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true })
  }
  const kernelTab = (name) => page.click(`#files [role=tab]:has-text("${name}")`)
  const kernelText = () =>
    page.evaluate(() => document.querySelector('#kernel-editor .cm-content').cmTile.view.state.doc.toString())
  async function writeKernel(code) {
    await page.click('#kernel-editor .cm-content')
    await page.keyboard.press('Control+a')
    await page.keyboard.press('Delete')
    await page.keyboard.insertText(code)
  }
  const markedInKernel = async (name) => {
    assert.match(await page.innerText('#files .tab:has(.named)'), new RegExp(name))
    await kernelTab(name)
    const lines = await page.locator('#kernel-editor .cm-line.marked').allInnerTexts()
    await kernelTab('program.ts')
    return lines.map((one) => one.trim())
  }
  /** What is said of the kernel's lines, there and beside them. */
  async function assertCounted(file, [said, note]) {
    assert.match(await page.innerText('#numbers'), said)
    assert.match(
      await page.innerText('#numbers'),
      /Occupancy 100 %: \d+ blocks of [\d,]+ threads fit on a multiprocessor/,
    )
    await page.locator('#numbers .side').last().click()
    assert.equal(await page.innerText('#files [aria-selected=true]'), file, 'its line is shown')
    const notes = await page
      .locator('#kernel-editor .note')
      .evaluateAll((all) => all.map(({ dataset }) => dataset.text))
    assert.ok(notes.includes(note), notes.join())
  }
  const failing = () => page.locator('#checks .fails').allInnerTexts()
  const holding = () => page.locator('#checks .holds').count()

  // Each has its day of three.
  for (const [slug, way] of ofTheDay(LESSONS, 3)) {
    it(`the lesson ${slug}: its bug is found, and fixed by the ${way}`, async () => {
      await show(`#lesson=${slug}`)
      assert.doesNotMatch(await over(), /Fixed/, 'it runs when it is opened')
      assert.notDeepEqual(await failing(), [])
      if (slug === 'no-overlap') {
        assert.match(await page.innerText('#stalls'), /stream\.synchronize\(\).*held/)
      } else if (slug === 'out-of-bounds') {
        const error = /ILLEGAL_ADDRESS.*0 bytes behind the end.*of 40 bytes.*block \(2,0,0\), thread \(2,0,0\)/
        assert.match(await page.innerText('.finding.failure'), error)
        assert.match(await page.innerText('#console .error'), error)
        assert.match(await status(), /^One uncaught error; /)
        assert.deepEqual(await markedInKernel('out-of-bounds.cu'), ['values[i] *= values[i];'])
      } else if (slug === 'shared-memory') {
        assert.match(await page.innerText('.finding'), /race for shared memory.*Threads \d+ and \d+ access byte/s)
        assert.deepEqual(await markedInKernel('shared-memory.cu'), [
          'sums[i] = values[i];',
          'if (i < half) sums[i] += sums[i + half];',
        ])
      } else if (slug in COUNTED) {
        assert.equal((await failing()).length, 1)
        assert.match(await status(), /^Nothing found; all orders agree/)
        await assertCounted(`${slug}.cu`, COUNTED[slug].bug)
      } else {
        assert.ok((await page.locator('.finding').count()) > 0, 'the sanitizer finds it')
        assert.equal(await page.locator('.cm-line.marked.second').count(), 1, 'its line is marked')
        assert.equal(await page.locator('.order').count(), 2, 'two orders disagree')
      }
      await picture(`${slug}-bug`)
      for (
        let times = 0;
        way === 'advice' && times < 3 && (await page.locator('.finding .insert').count()) > 0;
        times += 1
      ) {
        await page.locator('.finding .insert').first().click()
        await over()
      }
      if (way === 'solution') {
        await page.click('#solution')
        await run()
      }
      assert.deepEqual(await failing(), [])
      assert.ok((await holding()) >= 4)
      assert.match(await status(), /Fixed/)
      if (slug in COUNTED) await assertCounted(`${slug}.fixed.cu`, COUNTED[slug].fixed)
      await picture(`${slug}-fixed`)
      await page.click('#restart')
      assert.doesNotMatch(await over(), /Fixed/)
      await page.click('#solution')
      assert.match(await run(), /Fixed/)
    })
  }

  it('a lesson runs when it is opened, by the chooser, the button and the address; what ran before is stopped, and writing runs nothing', async () => {
    await show()
    await page.selectOption('#lessons', '')
    const endless = "console.log('before')\nwhile (true) {}\n"
    await write(endless)
    assert.equal(await status(), 'Ready', 'writing runs nothing')
    const running = () => page.workers().filter((one) => one.url().endsWith('stack.js'))
    await Promise.all(running().map((one) => one.waitForEvent('close')))
    for (const [way, title, opened] of [
      ['the chooser', /Two streams/, () => page.selectOption('#lessons', 'two-streams')],
      ['the button', /Events/, () => page.click('#next')],
      ['the address', /trap/, () => page.evaluate(() => location.assign('#lesson=null-stream'))],
    ]) {
      if (way !== 'the button') {
        await page.selectOption('#lessons', '')
        await write(endless)
        await page.click('#run')
        await page.waitForFunction(() => document.getElementById('console').textContent === 'before')
        await page.waitForFunction(() => location.hash.includes('code='))
        assert.ok(await page.isEnabled('#stop'))
      }
      await opened()
      await page.waitForFunction(
        (pattern) => new RegExp(pattern).test(document.getElementById('lesson-title').textContent),
        title.source,
      )
      assert.match(await over(), /findings?; two orders disagree/, way)
      assert.doesNotMatch(await page.innerText('#console'), /before/, way)
      assert.ok(await page.isDisabled('#stop'), way)
      // Nothing runs any more: each worker ends.
      await Promise.all(running().map((one) => one.waitForEvent('close')))
    }
  })

  it('a program that comes with an address waits until somebody has seen it', async () => {
    await show('#lesson=two-streams')
    await over()
    await write("console.log('from the address')\n")
    await page.waitForFunction(() => location.hash.includes('code='))
    const { hash } = new URL(page.url())
    await show(hash)
    assert.equal(await status(), 'Ready')
    assert.equal(await page.innerText('#console'), '')
    await run()
    assert.equal(await page.innerText('#console'), 'from the address')
  })

  it('the signature that lies is corrected, and then the race is found, with the line to insert', async () => {
    await show('#lesson=signature')
    await run()
    assert.match(await page.innerText('#findings'), /signature says it only reads.*say 'out' or 'inout'/s)
    await write((await text()).replace('./signature.cu', './signature.fixed.cu'))
    assert.match(await run(), /^One finding; two orders disagree/)
    await page.click('.finding .insert')
    assert.match(await over(), /Fixed/)
  })

  it('a kernel is in a tab of its own; PTX that is written there runs, and changed CUDA C++ says that it cannot', async () => {
    await show('#lesson=out-of-bounds')
    assert.deepEqual(await page.locator('#files [role=tab]').allInnerTexts(), ['program.ts', 'out-of-bounds.cu'])
    await kernelTab('out-of-bounds.cu')
    assert.ok(await page.isHidden('#program'))
    const source = await kernelText()
    assert.match(source, /__global__ void square/)
    assert.match(await page.innerText('#kernel-said'), /^CUDA C\+\+, compiled to PTX when this page was built/)
    assert.ok(await page.isHidden('#kernel-back'))
    await picture('kernel-tab')

    await writeKernel(source.replace('values[i]', 'values[0]'))
    const refused =
      /page cannot compile CUDA C\+\+: write PTX here, which 'npx cuda-streams compile out-of-bounds\.cu --ptx'/
    assert.match(await page.innerText('#kernel-said'), refused)
    await kernelTab('program.ts')
    await page.click('#run')
    assert.match(await status(), /^It cannot be run/)
    assert.match(await page.innerText('#console .error'), /out-of-bounds\.cu was changed, and a page cannot compile/)
    assert.ok(await page.isVisible('#kernel'), 'the tab of the kernel is opened')
    await page.click('#kernel-back')
    assert.equal(await kernelText(), source)
    assert.doesNotMatch(await run(), /cannot/)

    await page.click('#kernel-ptx')
    const ptx = await kernelText()
    assert.match(ptx, /^\.version 8\.5/)
    assert.match(await page.innerText('#kernel-said'), /^PTX, which runs on the simulator/)
    // The threads beyond the end have nothing to do.
    const guard = '\tsetp.ge.s32 \t%p1, %r4, 10;\n@%p1 ret;\n'
    await writeKernel(
      ptx.replace('\t.reg .b32', '\t.reg .pred %p<2>;\n\t.reg .b32').replace(/(mad\.lo.*\n)/, `$1${guard}`),
    )
    assert.match(await run(), /Fixed/)
    // The address has it.
    await page.waitForFunction(() => location.hash.includes('kernels='))
    const { hash } = new URL(page.url())
    await show(hash)
    assert.match(await run(), /Fixed/)
  })

  it('only a program that imports a kernel is run once more to count what that does', async () => {
    for (const [slug, workers] of [
      ['two-streams', 2],
      ['coalescing', 3],
    ]) {
      await show(`#lesson=${slug}`)
      await over()
      let begun = 0
      page.on('worker', () => {
        begun += 1
      })
      await run()
      assert.equal(begun, workers, slug)
      assert.equal(await page.isVisible('#numbers-section'), workers === 3)
    }
    // What was counted is that of the latest run.
    await page.selectOption('#lessons', 'two-streams')
    assert.ok(await page.isHidden('#numbers-section'))
    await over()
  })

  it('a kernel that faults has no numbers, and the notes of PTX that is typed are not beside CUDA C++', async () => {
    await show('#lesson=out-of-bounds')
    await run()
    assert.ok(await page.isHidden('#numbers-section'))
    await page.click('#solution')
    await run()
    assert.match(await page.innerText('#numbers'), /line \d+\s+global memory: /)
    await kernelTab('out-of-bounds.fixed.cu')
    assert.notEqual(await page.locator('#kernel-editor .note').count(), 0)
    await page.click('#kernel-ptx')
    await run()
    assert.match(await page.innerText('#numbers'), /line \d+\s+global memory: /)
    assert.equal(await page.locator('#kernel-editor .note').count(), 0)
  })

  it('a program of one’s own has a tab for a kernel of its own, which takes PTX', async () => {
    await show()
    await page.selectOption('#lessons', '')
    const [, ptx] = /`(.*)`/s.exec(PRINTING)
    await write(OWN)
    await page.click('#run')
    assert.match(await status(), /^It cannot be run/)
    assert.match(
      await page.innerText('#console .error'),
      /own\.cu has no code, and a page cannot compile CUDA C\+\+: write PTX/,
    )
    await writeKernel(ptx)
    await run()
    assert.deepEqual(await page.locator('#console pre').allInnerTexts(), ['thread 0', 'thread 1'])
    await page.waitForFunction(() => /It exports greet\(\)\./.test(document.getElementById('kernel-said').textContent))
    // What is not there is said, as is what is.
    await kernelTab('program.ts')
    await write(OWN.replaceAll('greet', 'ptx'))
    await run()
    assert.match(await page.innerText('#console .error'), /'\.\/own\.cu' exports no ptx: its kernels are greet/)
    assert.match(await page.innerText('#console .error'), /at program\.ts:4/)
    // Without the import the tab is gone.
    await kernelTab('program.ts')
    await write('export const one = 1')
    assert.deepEqual(await page.locator('#files [role=tab]').allInnerTexts(), ['program.ts'])
  })

  it('CUDA C++ that the page would have to compile is refused, with the way out', async () => {
    await show()
    const source = 'extern "C" __global__ void nothing() {}'
    await write(
      `import { Device, defineKernel, Program, Stream } from 'cuda-streams'
const nothing = defineKernel({ name: 'nothing', source: '${source}', signature: [] })
try {
  await Program.compile('${source}')
} catch (error) {
  console.log(String(error))
}
new Stream().launch(nothing, { grid: 1, block: 1 })
`,
    )
    assert.match(await run(), /^One uncaught error; /)
    const lines = await page.locator('#console pre').allInnerTexts()
    assert.equal(lines.length, 2)
    for (const line of lines) assert.match(line, /cannot run NVRTC.*nvcc --ptx.*in place of `source`/)
    assert.match(await page.innerText('.finding.failure'), /line 8\s.*cannot run NVRTC/s)
    assert.match(await page.innerText('.cm-line.marked'), /^new Stream\(\)\.launch/)
  })

  it('a program that ends with an error is not called one in which nothing was found', async () => {
    await show()
    await write(`import { Stream } from 'cuda-streams'
const stream = new Stream()
await stream.finished()
throw new Error('it went wrong')
`)
    assert.match(await run(), /^One uncaught error; /)
    assert.match(await page.innerText('#findings'), /An uncaught error\s+line 4\s+.*it went wrong/s)
    assert.doesNotMatch(await page.innerText('body'), /found nothing|nothing found|no missing wait/i)
  })

  it('what a kernel prints is in the console', async () => {
    await show()
    await write(PRINTING)
    await run()
    assert.deepEqual(await page.locator('#console pre').allInnerTexts(), ['thread 0', 'thread 1'])
  })

  it('a program is edited, shared by its address, and found there again', async () => {
    await show()
    await page.selectOption('#lessons', '')
    const code = "console.log('Größe', [1, 2, 3].length * 14)\n"
    await write(code)
    await run()
    assert.match(await page.innerText('#console'), /Größe 42/)
    await page.click('#share')
    await page.waitForFunction(() => location.hash.includes('code='))
    const hash = await page.evaluate(() => location.hash)
    const other = await open(hash)
    assert.equal((await text(other)).trim(), code.trim())
    await other.close()
  })

  it('the types are the library’s own: completions, and a mistake is underlined', async () => {
    await show()
    await page.selectOption('#lessons', '')
    await write("import { Stream } from 'cuda-streams'\nconst mine = new Stream()\nmine.launchHost")
    await page.waitForSelector('.cm-tooltip-autocomplete')
    assert.match(await page.innerText('.cm-tooltip-autocomplete'), /launchHostFunc/)
    await picture('completions')
    await page.keyboard.press('Escape')
    await write("import { Stream } from 'cuda-streams'\nnew Stream({ priority: 'high' })\n")
    await page.waitForSelector('.cm-lintRange-error')
  })

  /** Text with the cursor where it has a |. */
  async function writeAt(code) {
    const [before, after] = code.split('|')
    await write(before + after)
    await page.keyboard.press('Control+End')
    for (let at = 0; at < after.length; at += 1) await page.keyboard.press('ArrowLeft')
  }
  const mistakes = () =>
    page.waitForSelector('.cm-lintRange-error').then(async () => {
      return (await page.locator('.cm-lintRange-error').allInnerTexts()).join('')
    })
  const TYPED = `import { Stream } from 'cuda-streams'
import { axpy } from './axpy.cu'
const stream = new Stream()
const x = stream.bufferFrom(Float32Array.of(1, 2))
`

  it('a kernel of a file is completed, described and checked, as with the declarations that the plug-ins write', async () => {
    await show()
    await page.selectOption('#lessons', '')
    // What the file exports.
    await writeAt("import { ax| } from './axpy.cu'")
    await page.keyboard.type('p')
    await page.waitForSelector('.cm-tooltip-autocomplete')
    assert.match(await page.innerText('.cm-tooltip-autocomplete'), /\baxpy\b/)
    await page.keyboard.press('Escape')

    await write(`${TYPED}stream.launch(axpy, { threads: 2 }, 10, x, 'y', 2)\n`)
    assert.equal(await mistakes(), "'y'")
    await write(`${TYPED.replace('axpy }', 'ptx }')}console.log(ptx)\n`)
    assert.equal(await mistakes(), 'ptx', 'no plug-in exports the text')

    // What hovers.
    await write(TYPED)
    await page.locator('#editor .cm-line', { hasText: "'./axpy.cu'" }).getByText('axpy', { exact: true }).hover()
    await page.waitForSelector('.cm-tooltip-hover .about')
    const about = await page.innerText('.cm-tooltip-hover .about')
    assert.match(about, /DefinedKernel<readonly \[a: "f32", x: "in f32\*", y: "inout f32\*", n: "i32"\]>/)
    assert.match(about, /y = a x \+ y: each thread computes one element/)
  })

  it('the call that is being written is shown with its parameters, and members with what they are for', async () => {
    await show()
    await page.selectOption('#lessons', '')
    await write(`${TYPED}stream.launch`)
    await page.keyboard.press('Escape')
    await page.keyboard.type('(axpy, { threads: 2 }, ')
    await page.waitForFunction(() => /\ba:/.test(document.querySelector('.signature strong')?.textContent))
    assert.match(await page.innerText('.signature code'), /launch\(.*config.*a: number.*x: MemoryArgument.*n: number/s)
    await picture('signature')
    await page.keyboard.type('10, ')
    await page.waitForFunction(() => /\bx:/.test(document.querySelector('.signature strong')?.textContent))
    await page.keyboard.press('Escape')
    await page.waitForSelector('.signature', { state: 'detached' })
    // A member, with its doc comment.
    await write(`${TYPED}stream.`)
    await page.keyboard.type('waitVal')
    await page.waitForSelector('.cm-completionInfo')
    assert.match(await page.innerText('.cm-tooltip-autocomplete'), /waitValue/)
    assert.match(
      await page.innerText('.cm-completionInfo'),
      /Makes later work of this stream wait until a word in memory has a value/,
    )
    await picture('completion-info')
  })

  it('PTX that is typed exports its entries, with the types of the source or those that it declares', async () => {
    await show()
    await page.selectOption('#lessons', '')
    const program = (args) => `import { Stream } from 'cuda-streams'
import { scale } from './own.cu'
const stream = new Stream()
const values = stream.bufferFrom(Float32Array.of(1, 2, 3))
stream.launch(scale, { grid: 1, block: 4 }, ${args})
export const result = await stream.download(values, Float32Array)
console.log(result)
`
    await write(program('values, 2, 3'))
    await kernelTab('own.cu')
    await writeKernel(SCALE)
    await page.waitForFunction(() => /It exports/.test(document.getElementById('kernel-said').textContent))
    assert.match(
      await page.innerText('#kernel-said'),
      /It exports scale\(values: inout u8\*, factor: f32, n: i32\)\. Not exported: whole, since matrix is 36 bytes by value/,
    )
    await run()
    assert.equal(await page.innerText('#console'), 'Float32Array(3) [ 2, 4, 6 ]')
    // The editor has the same types.
    await kernelTab('program.ts')
    await write(program("values, 'two', 3"))
    assert.equal(await mistakes(), "'two'")
    // What cannot be read says why, beside it and when it runs.
    await kernelTab('own.cu')
    await writeKernel(SCALE.replace('mul.f32', 'multiply.f32'))
    await page.waitForFunction(() => /Not exported: scale/.test(document.getElementById('kernel-said').textContent))
    await kernelTab('program.ts')
    await write(program('values, 2, 3'))
    await run()
    assert.match(await page.innerText('#console .error'), /'\.\/own\.cu' does not export scale: .*multiply/)
    // An entry of the source keeps its types, and the names of its parameters.
    await page.selectOption('#lessons', 'first-kernel')
    await over()
    await kernelTab('axpy.cu')
    await page.click('#kernel-ptx')
    await writeKernel((await kernelText()).replace('fma.rn.f32', 'fma.rz.f32'))
    await page.waitForFunction(() => /It exports/.test(document.getElementById('kernel-said').textContent))
    assert.match(await page.innerText('#kernel-said'), /axpy\(a: f32, x: in f32\*, y: inout f32\*, n: i32\)/)
  })

  it('text that is no program is refused with its line', async () => {
    await show()
    await write('const a = 1\nconst = 2\n')
    assert.match(await run(), /no program/)
    assert.match(await page.innerText('#console'), /\(2:/)
  })

  it('a program whose orders cannot be tried is run all the same', async () => {
    await show()
    await write(
      "import { Stream } from 'cuda-streams'\nconst a = new Stream()\nif (Math.random() < 0.5) a.launchHostFunc(() => {})\nconst b = new Stream()\nb.launchHostFunc(() => {})\nawait Promise.all([a.finished(), b.finished()])\nconsole.log('ran')\n",
    )
    await run()
    assert.equal(await page.innerText('#console'), 'ran')
    assert.notEqual(await page.innerText('#orders'), '')
  })

  it('an error is told with its line', async () => {
    await show()
    await write("console.warn('careful')\nthrow new RangeError('too far')\n")
    await run()
    assert.match(await page.innerText('#console'), /careful\s+Uncaught RangeError: too far\s+at program\.ts:2/)
  })

  it('an endless loop is ended by the button, and the next run is a new one', async () => {
    await show()
    await write("console.log('before')\nwhile (true) console.log('again')\n")
    await page.click('#run')
    await page.waitForFunction(() => document.getElementById('console').textContent.includes('More lines'))
    await page.click('#stop')
    assert.equal(await status(), 'Stopped')
    assert.match(await page.innerText('#console'), /More lines are not shown$/)
    assert.ok(await page.isDisabled('#stop'))
    await write("console.log('after')\n")
    await run()
    assert.equal(await page.innerText('#console'), 'after')
  })

  it('a program that waits forever is told of, with the order in which it does', async () => {
    await show()
    await write(
      "import { Stream } from 'cuda-streams'\nimport { latch } from 'cuda-streams/sim'\nconst stream = new Stream()\nlatch(stream)\nawait stream.finished()\n",
    )
    assert.match(await run(), /waits forever/)
    assert.equal(await page.locator('.order').count(), 1)
    assert.match(await page.innerText('.order'), /waits forever.*latch/s)
    assert.ok(await page.isDisabled('#stop'))
  })

  it('two orders are stepped through, with the bytes of each buffer beside', async () => {
    await show('#lesson=two-streams')
    await run()
    const bytes = () => page.locator('.memory td').allInnerTexts()
    const step = () => page.innerText('.stepping output')
    assert.equal(await step(), 'step 2 of 5', 'where they part')
    assert.deepEqual(
      (await bytes()).slice(0, 2),
      ['07 07 07 07 ', 'cd cd cd cd '].map((one) => one.trim()),
    )
    await page.click('[aria-label="One step on"]')
    assert.equal(await step(), 'step 3 of 5')
    assert.deepEqual(await bytes(), ['07 07 07 07', '07 07 07 07', '07 07 07 07', 'cd cd cd cd'])
    assert.ok((await page.locator('.cm-line.marked.step').count()) > 0, 'its line is marked')
    await page.focus('#step')
    await page.keyboard.press('ArrowLeft')
    assert.equal(await step(), 'step 2 of 5')
    await page.locator('.order .step').first().click()
    assert.equal(await step(), 'step 1 of 5')
  })

  it('virtual time is moved by the keyboard, and dragged', async () => {
    await show('#lesson=two-streams')
    await run()
    const states = () => page.innerText('#state-rows')
    const atEnd = await states()
    assert.match(atEnd, /producer\s+is done\s+1 of 1/)
    await page.focus('#time')
    await page.keyboard.press('Home')
    assert.match(await states(), /producer\s+has nothing to do\s+0 of 1/)
    assert.equal(await page.inputValue('#time'), '0')
    await page.keyboard.press('End')
    assert.equal(await states(), atEnd)
    const box = await page.locator('#playhead').boundingBox()
    await page.mouse.move(box.x + 7, box.y + 30)
    await page.mouse.down()
    await page.mouse.move(box.x - 250, box.y + 30, { steps: 4 })
    await page.mouse.up()
    assert.ok(Number(await page.inputValue('#time')) < 700)
    assert.match(await states(), /consumer\s+\S/)
  })

  it('everything is reached by the keyboard: it runs by Ctrl+Enter, and Escape, Tab leaves the editor', async () => {
    await show()
    await page.focus('.cm-content')
    await page.keyboard.press('Control+Enter')
    await over()
    await page.keyboard.press('Escape')
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate(() => document.activeElement.closest('.cm-editor')), null)
    const reached = new Set()
    for (let at = 0; at < 60; at += 1) {
      reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.className))
      await page.keyboard.press('Tab')
    }
    for (const wanted of ['time', 'step', 'run', 'lessons', 'tracks', 'button insert'])
      assert.ok(reached.has(wanted), wanted)
  })

  // Each pair of lesson, colours and width once.
  const looks = [
    ['two-streams', 'light', DESKTOP],
    ['two-streams', 'dark', PHONE],
    ['out-of-bounds', 'light', PHONE],
    ['out-of-bounds', 'dark', DESKTOP],
    ['coalescing', 'light', DESKTOP],
    ['bank-conflicts', 'dark', PHONE],
  ]
  for (const [slug, scheme, viewport] of ofTheDay(looks, 2)) {
    const { width } = viewport
    it(`axe-core has nothing to say, ${slug}, ${scheme}, ${width} wide, and nothing is cut off`, async () => {
      await show(`#lesson=${slug}`, viewport, scheme)
      await run()
      if (slug !== 'two-streams') await kernelTab(`${slug}.cu`)
      await picture(`page-${slug}-${width}-${scheme}`)
      await page.evaluate(AXE)
      const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }))
      const said = violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 120)} ${failureSummary}`),
      )
      assert.deepEqual(said, [])
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
      assert.ok(wide <= 0, `the page is ${wide} pixels wider than the window`)
    })
  }

  it('a program makes the page of its own timeline, which opens', async () => {
    await show()
    await page.selectOption('#lessons', '')
    await write(
      `import { Stream } from 'cuda-streams'
import { busy } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
const stream = new Stream()
const timeline = await Timeline.record(() => { for (let at = 0; at < 9; at += 1) busy(stream, 5000) })
console.log(timeline.toHtml())
`,
    )
    await run()
    const html = await page.textContent('#console')
    const shown = await browser.newPage()
    await shown.setContent(html)
    await shown.waitForFunction(() => /9 operations/.test(document.getElementById('about').textContent))
    await shown.close()
  })

  it('tells its time to the first run', async (context) => {
    const begin = performance.now()
    const other = await open()
    const ready = performance.now()
    await over(other)
    context.diagnostic(
      `ready in ${Math.round(ready - begin)} ms, run and explored ${Math.round(performance.now() - ready)} ms later`,
    )
    await other.close()
  })
})
