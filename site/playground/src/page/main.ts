/** The page: puts its parts together, runs the program in a worker, and ends it. */
import type { KernelProfile } from 'cuda-streams/sim'
import { themeButton } from '../../../../src/tools/timeline/page/draw.js'
import { byId, element } from '../../../../src/tools/timeline/page/panel.js'
import { LESSONS } from '../../lessons/lessons.js'
import { withInsertions } from '../run/insertions.js'
import type { Explored, Finding, Insertion, KernelTexts, Level, Ran, Reply, Request } from '../run/messages.js'
import { readAddress, writeAddress } from './address.js'
import { type Mark, openEditor, typeScript } from './editor.js'
import { noFindings, showFindings, withCode } from './findings.js'
import { Kernels, NoKernel } from './kernels.js'
import { checksOf, type Lesson } from './lesson.js'
import { noNumbers, showNumbers } from './numbers.js'
import { openWorker } from './open-worker.js'
import { noOrders, showOrders, showProgress } from './orders.js'
import { Tracks } from './tracks.js'
import { Types } from './types.js'

const button = (id: string): HTMLButtonElement => byId(id, HTMLButtonElement)

const types = new Types()
const program = { label: 'The program', language: typeScript(types) }
const editor = openEditor(byId('editor', HTMLElement), program, edited, start)
/** The home page of the site, which shows a program, its kernel and its result in one screen. */
const home = window.frameElement?.ownerDocument.documentElement
const kernels = new Kernels(home !== undefined, edited, start, (files) => types.declare(files))
const tracks = new Tracks((line) => editor.mark([...findingMarks(), { line, kind: 'step' }]))
const output = byId('console', HTMLElement)
// It scrolls: the keyboard must get there.
output.tabIndex = 0
const status = byId('status', HTMLElement)
const chooser = byId('lessons', HTMLSelectElement)

let lesson: Lesson | undefined
/** A program that waits forever, or loops, is no reason not to try its orders: all at once. */
const workers = new Map<Request['what'], Worker>()
let ran: Ran | undefined
let explored: Explored | undefined
/** What its kernels did at each line. Undefined: not known yet, or it imports none. */
let profiles: readonly KernelProfile[] | undefined
let shownFinding: Finding | undefined
let addressTimer = 0

const say = (text: string): void => {
  status.textContent = text
}

// Running.

function start(): void {
  stop('')
  ran = undefined
  explored = undefined
  profiles = undefined
  shownFinding = undefined
  output.replaceChildren()
  editor.mark([])
  markKernels()
  noFindings(true)
  noNumbers()
  tracks.clear()
  noOrders()
  showChecks()
  const code = editor.text
  try {
    const { ptx } = kernels
    say('Running …')
    showProgress(0, 0)
    ask({ what: 'run', code, kernels: ptx })
    ask({ what: 'explore', code, kernels: ptx })
    if (kernels.areImported && home === undefined) ask({ what: 'profile', code, kernels: ptx })
  } catch (error) {
    if (!(error instanceof NoKernel)) throw error
    noFindings(false)
    print('error', error.message)
    kernels.show(error.file)
    say('It cannot be run: a page cannot compile CUDA C++')
  }
}

function ask(request: Request): void {
  const worker = openWorker()
  workers.set(request.what, worker)
  button('stop').disabled = false
  worker.addEventListener('message', ({ data }: MessageEvent<Reply>) => {
    if (worker === workers.get(request.what)) take(data, request)
  })
  worker.addEventListener('error', ({ message }) => {
    print('error', message)
    if (worker === workers.get(request.what)) end(request)
  })
  worker.postMessage(request)
}

function stop(text: string): void {
  for (const worker of workers.values()) worker.terminate()
  workers.clear()
  button('stop').disabled = true
  if (text === '') return
  if (explored === undefined) noOrders()
  if (ran === undefined) noFindings(false)
  say(text)
}

/** One of them is over. */
function end({ what }: Request): void {
  workers.get(what)?.terminate()
  workers.delete(what)
  showChecks()
  if (workers.size === 0) stop(verdict())
  else if (explored?.verdict === 'deadlock') stop('It waits forever: see the order.')
  else if (ran === undefined) say(explored === undefined ? 'Running …' : 'Its orders are tried; it still runs …')
  else say(explored === undefined ? 'It ran. Trying other orders …' : 'It ran. Counting what its kernels do …')
}

function take(reply: Reply, request: Request): void {
  switch (reply.what) {
    case 'console':
      if (request.what === 'run') print(reply.level, reply.text)
      break
    case 'progress':
      showProgress(reply.runs, reply.maxRuns)
      break
    case 'refused':
      if (reply.isProgram && request.what === 'explore') {
        explored = notTried(reply.message)
        showOrders(explored, insert, () => {})
        end(request)
        break
      }
      print('error', reply.message)
      if (reply.line !== undefined) editor.mark([{ line: reply.line, kind: 'second' }])
      stop(reply.isProgram ? 'It could not be run' : 'It is no program')
      break
    case 'ran':
      ran = reply.ran
      showFindings(ran.findings, ran.failures, { insert, mark: markFinding, show: (line) => editor.show(line) })
      markKernels()
      tracks.show(ran.timeline)
      if (lesson?.most !== undefined) byId('why', HTMLDetailsElement).open = true
      if (ran.findings[0] !== undefined) markFinding(ran.findings[0])
      else editor.mark(findingMarks())
      end(request)
      break
    case 'explored':
      explored = reply.explored
      showOrders(explored, insert, (lines) => editor.mark(lines.map((line): Mark => ({ line, kind: 'step' }))))
      end(request)
      break
    case 'profiled':
      profiles = reply.profiles
      showNumbers(profiles, (file, line) => kernels.showLine(file, line))
      markKernels()
      end(request)
      break
  }
}

const notTried = (summary: string): Explored => ({
  verdict: 'unfinished',
  complete: false,
  runs: 0,
  summary,
  missing: '',
  insertions: [],
  orders: [],
})

function verdict(): string {
  if (ran === undefined || explored === undefined) return 'It could not be run'
  const isFixed = lesson !== undefined && checksOf(lesson, ran, explored, profiles).every(({ holds }) => holds)
  if (isFixed) return 'Fixed. Well done!'
  const counted = (count: number, what: string): string => (count === 1 ? `one ${what}` : `${count} ${what}s`)
  const { findings, failures } = ran
  const found = [
    ...(failures.length === 0 ? [] : [counted(failures.length, 'uncaught error')]),
    ...(findings.length === 0 ? [] : [counted(findings.length, 'finding')]),
  ]
  if (found.length === 0) found.push('nothing found')
  const orders = {
    agree: 'all orders agree',
    disagree: 'two orders disagree',
    deadlock: 'an order waits forever',
    unfinished: 'its orders could not be tried',
  }
  const text = [...found, orders[explored.verdict]].join('; ')
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
}

function print(level: Level, text: string): void {
  output.append(element('pre', { className: level }, text))
  output.scrollTop = output.scrollHeight
}

// What was found.

function findingMarks(): Mark[] {
  const marks: Mark[] = []
  if (shownFinding?.first?.line !== undefined) marks.push({ line: shownFinding.first.line, kind: 'first' })
  if (shownFinding?.second.line !== undefined) marks.push({ line: shownFinding.second.line, kind: 'second' })
  if (shownFinding !== undefined) return marks
  for (const { line } of ran?.failures ?? []) if (line !== undefined) marks.push({ line, kind: 'second' })
  return marks
}

function markFinding(finding: Finding): void {
  shownFinding = finding
  editor.mark(findingMarks())
}

/** With the lines that the latest run named, and what was counted of each. */
function markKernels(): void {
  const said = [...(ran?.findings ?? []).map(({ message }) => message), ...(ran?.outcome.errors ?? [])]
  kernels.mark(
    said,
    (profiles ?? []).flatMap(({ lines }) => lines),
  )
}

function insert(insertions: readonly Insertion[]): void {
  editor.write(withInsertions(editor.text, insertions))
  start()
}

// Lessons, and the address.

function open(wanted: Lesson | undefined, code: string | undefined, texts: KernelTexts = {}): void {
  stop('')
  lesson = wanted
  ran = undefined
  explored = undefined
  profiles = undefined
  chooser.value = wanted?.slug ?? ''
  kernels.open(texts)
  editor.write(code ?? wanted?.program ?? FREE)
  kernels.follow(editor.text)
  markKernels()
  output.replaceChildren()
  noFindings(false)
  noNumbers()
  tracks.clear()
  noOrders()
  byId('lesson', HTMLElement).hidden = wanted === undefined
  if (wanted !== undefined) {
    const nth = LESSONS.indexOf(wanted)
    byId('lesson-title', HTMLElement).textContent = `${nth + 1}. ${wanted.title}`
    const paragraphs = wanted.text.map((text) => element('p', {}, ...withCode(text)))
    const look = element('p', { className: 'look' }, element('strong', {}, 'Look at: '), ...withCode(wanted.look))
    byId('lesson-text', HTMLElement).replaceChildren(...paragraphs, look)
    button('next').disabled = LESSONS[nth + 1] === undefined
  }
  showChecks()
  say('Ready')
}

function showChecks(): void {
  const target = byId('checks', HTMLElement)
  target.replaceChildren()
  if (lesson === undefined) return
  for (const { text, holds } of checksOf(lesson, ran, explored, profiles)) {
    const sign = holds === undefined ? '·' : holds ? '✓' : '✗'
    const state = holds === undefined ? 'not known yet: ' : holds ? 'yes: ' : 'no: '
    target.append(
      element(
        'li',
        { className: holds === undefined ? '' : holds ? 'holds' : 'fails' },
        element('span', { ariaHidden: 'true' }, sign),
        element('span', { className: 'hidden' }, state),
        element('span', {}, ...withCode(text)),
      ),
    )
  }
}

/** What the address says of the program as it is now. */
const place = (): Parameters<typeof writeAddress>[0] => ({
  lesson: lesson?.slug,
  code: editor.text === lesson?.program ? undefined : editor.text,
  kernels: kernels.texts,
})

function edited(): void {
  kernels.follow(editor.text)
  clearTimeout(addressTimer)
  addressTimer = window.setTimeout(() => void writeAddress(place()), 300)
}

async function share(): Promise<void> {
  const address = await writeAddress(place())
  try {
    await navigator.clipboard.writeText(address)
    say('The address is copied: it has the program in it')
  } catch {
    say('The address of this page has the program in it now')
  }
}

/** A lesson runs when it is opened: what it is about can be seen then. A program of one's own is written first. */
function openAndRun(wanted: Lesson | undefined): void {
  open(wanted, undefined)
  if (wanted !== undefined) start()
}

/** Only what this page was built with runs unasked: a program that came with an address waits until somebody has seen it. */
async function openAddress(): Promise<void> {
  const { lesson: slug, code, kernels: texts } = await readAddress()
  const wanted = LESSONS.find((one) => one.slug === slug)
  const first = code === undefined && home === undefined ? LESSONS[0] : undefined
  if (code === undefined && Object.keys(texts).length === 0 && home === undefined) openAndRun(wanted ?? first)
  else open(wanted ?? first, code, texts)
}

/** What the home page begins with, and a program of one's own. */
const FREE = LESSONS[0]?.fixed ?? ''

chooser.append(
  ...LESSONS.map(({ slug, title }, nth) => element('option', { value: slug }, `${nth + 1}. ${title}`)),
  element('option', { value: '' }, 'A program of your own'),
)
chooser.addEventListener('change', () => openAndRun(LESSONS.find(({ slug }) => slug === chooser.value)))
button('run').addEventListener('click', start)
button('stop').addEventListener('click', () => stop('Stopped'))
button('share').addEventListener('click', () => void share())
button('restart').addEventListener('click', () => openAndRun(lesson))
button('solution').addEventListener('click', () => {
  if (lesson !== undefined) editor.write(lesson.fixed)
})
button('next').addEventListener('click', () => {
  const next = LESSONS[lesson === undefined ? 0 : LESSONS.indexOf(lesson) + 1]
  if (next !== undefined) openAndRun(next)
})
window.addEventListener('hashchange', () => void openAddress())
const setTheme = themeButton(button('theme'), (colours) => tracks.restyle(colours))
await openAddress()
if (home !== undefined) showAtHome(home)

/** The right program runs as soon as it can be seen, and a button leaves out its wait. */
function showAtHome(site: HTMLElement): void {
  document.documentElement.classList.add('at-home')
  const follow = (): void => setTheme(site.classList.contains('dark') ? 'dark' : 'light')
  new MutationObserver(follow).observe(site, { attributeFilter: ['class'] })
  follow()
  button('break').hidden = false
  button('break').addEventListener('click', () => {
    openAndRun(LESSONS[0])
  })
  // Who does not scroll to it need not load the library.
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some(({ isIntersecting }) => isIntersecting)) return
    seen.disconnect()
    start()
  })
  seen.observe(byId('program', HTMLElement))
}
