// The playground in a real browser: each lesson is run, its bug found, fixed and found clean; the editor, the address, stepping, time, an endless
// loop; contrast and names by axe-core. PLAYGROUND_SCREENSHOTS names a folder for pictures.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { findChromium, launch, serve } from './serve.mjs'

const skip = findChromium() === undefined ? 'no Chromium on the PATH' : false
const SCREENSHOTS = process.env['PLAYGROUND_SCREENSHOTS']
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const DESKTOP = { width: 1440, height: 900 }
const PHONE = { width: 390, height: 844 }
const OVER = /No missing wait|missing waits?;|Fixed|no program|Stopped|cannot be|waits forever/

/** The advised line repairs these; of the others a person has to think. */
const LESSONS = [
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
]

describe('the playground, in Chromium', { skip, timeout: 180_000 }, () => {
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
  beforeEach(async () => {
    await page?.close()
    page = await open()
  })

  async function open(hash = '', viewport = DESKTOP, colorScheme = 'light') {
    const opened = await browser.newPage({ viewport, colorScheme })
    opened.on('console', (message) => problems.push(`${message.type()}: ${message.text()}`))
    opened.on('pageerror', (error) => problems.push(error.message))
    opened.on('request', (request) => {
      if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(server.origin))
        problems.push(`asks for ${request.url()}`)
    })
    await opened.goto(`${server.origin}/playground/${hash}`)
    await opened.waitForFunction(() => document.getElementById('status').textContent === 'Ready')
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
  const failing = () => page.locator('#checks .fails').allInnerTexts()
  const holding = () => page.locator('#checks .holds').count()

  for (const [slug, way] of LESSONS) {
    it(`the lesson ${slug}: its bug is found, and fixed by the ${way}`, async () => {
      await page.close()
      page = await open(`#lesson=${slug}`)
      assert.doesNotMatch(await run(), /Fixed/)
      assert.notDeepEqual(await failing(), [])
      if (slug === 'no-overlap') {
        assert.match(await page.innerText('#stalls'), /stream\.synchronize\(\).*held/)
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
      await picture(`${slug}-fixed`)
      await page.click('#restart')
      await page.click('#solution')
      assert.match(await run(), /Fixed/)
    })
  }

  it('a program is edited, shared by its address, and found there again', async () => {
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
    await page.selectOption('#lessons', '')
    await write("import { Stream } from 'cuda-streams'\nconst mine = new Stream()\nmine.launchHost")
    await page.waitForSelector('.cm-tooltip-autocomplete')
    assert.match(await page.innerText('.cm-tooltip-autocomplete'), /launchHostFunc/)
    await picture('completions')
    await page.keyboard.press('Escape')
    await write("import { Stream } from 'cuda-streams'\nnew Stream({ priority: 'high' })\n")
    await page.waitForSelector('.cm-lintRange-error')
  })

  it('text that is no program is refused with its line', async () => {
    await write('const a = 1\nconst = 2\n')
    assert.match(await run(), /no program/)
    assert.match(await page.innerText('#console'), /\(2:/)
  })

  it('a program whose orders cannot be tried is run all the same', async () => {
    await write(
      "import { Stream } from 'cuda-streams'\nconst a = new Stream()\nif (Math.random() < 0.5) a.launchHostFunc(() => {})\nconst b = new Stream()\nb.launchHostFunc(() => {})\nawait Promise.all([a.finished(), b.finished()])\nconsole.log('ran')\n",
    )
    await run()
    assert.equal(await page.innerText('#console'), 'ran')
    assert.notEqual(await page.innerText('#orders'), '')
  })

  it('an error is told with its line', async () => {
    await write("console.warn('careful')\nthrow new RangeError('too far')\n")
    await run()
    assert.match(await page.innerText('#console'), /careful\s+Uncaught RangeError: too far\s+at program\.ts:2/)
  })

  it('an endless loop is ended by the button, and the next run is a new one', async () => {
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
    await write(
      "import { Stream } from 'cuda-streams'\nimport { latch } from 'cuda-streams/sim'\nconst stream = new Stream()\nlatch(stream)\nawait stream.finished()\n",
    )
    assert.match(await run(), /waits forever/)
    assert.equal(await page.locator('.order').count(), 1)
    assert.match(await page.innerText('.order'), /waits forever.*latch/s)
    assert.ok(await page.isDisabled('#stop'))
  })

  it('two orders are stepped through, with the bytes of each buffer beside', async () => {
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

  for (const [viewport, width] of [
    [DESKTOP, 1440],
    [PHONE, 390],
  ]) {
    for (const scheme of ['light', 'dark']) {
      it(`axe-core has nothing to say, ${scheme}, ${width} wide, and nothing is cut off`, async () => {
        await page.close()
        page = await open('#lesson=two-streams', viewport, scheme)
        await run()
        await picture(`page-${width}-${scheme}`)
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
  }

  it('a program makes the page of its own timeline, which opens', async () => {
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
    await run(other)
    context.diagnostic(
      `ready in ${Math.round(ready - begin)} ms, run and explored ${Math.round(performance.now() - ready)} ms later`,
    )
    await other.close()
  })
})
