/** The page: reads the recording in its file, puts the parts together, and listens. */
import { isHostOnly } from '../kinds.js'
import { decodePage } from '../page-format.js'
import { bandOf, beside, find, layOut, NOTHING, neighbour, type Picked, stretch } from './bands.js'
import {
  type Data,
  dataOf,
  formatCount,
  formatPoint,
  formatTick,
  formatTime,
  Gaps,
  placeOf,
  timeOf,
  titleOf,
} from './data.js'
import { Arrows, AXIS, type Colours, type Highlights, Overview, Painter, themeButton } from './draw.js'
import {
  byId,
  element,
  gapReason,
  listGaps,
  listNames,
  listPath,
  listStalls,
  listStreams,
  showDetails,
  showOverlaps,
  showRange,
  waitsFor,
  withCode,
} from './panel.js'
import { listenToPointer } from './pointer.js'
import { View } from './view.js'

declare global {
  interface Window {
    /** The milliseconds that the latest frames took to draw, for tests. */
    timelineFrames: number[]
  }
}

const KEY_PAN = 0.15
const KEY_ZOOM = 1.5
/** The share of the view by which a key moves an end of the measured interval. */
const KEY_MEASURE = 0.01
const FRAMES_KEPT = 600
/** The pixels below the bands that the interval in view is written in. */
const STATUS = 28

export function show(data: Data): void {
  const canvas = byId('tracks', HTMLCanvasElement)
  const area = byId('area', HTMLElement)
  const labels = byId('labels', HTMLElement)
  const tooltip = byId('tooltip', HTMLElement)
  const searchBox = byId('search', HTMLInputElement)
  const status = byId('status', HTMLElement)
  const spoken = byId('spoken', HTMLElement)
  const measuring = byId('measure', HTMLButtonElement)
  const layout = layOut(data)
  const arrows = new Arrows(data, layout)
  const gaps = new Gaps(data)
  const highlights: Highlights = {
    selected: -1,
    hovered: -1,
    matches: undefined,
    matchesBefore: new Map(),
    showCritical: true,
    gaps: new Map(),
    gap: -1,
    range: undefined,
  }
  window.timelineFrames = []
  let asked = false
  let height = 1
  let found: Int32Array = new Int32Array()
  let foundAt = -1
  let marked = -1
  let colours: Colours = () => ''

  const redraw = (): void => {
    if (asked) return
    asked = true
    requestAnimationFrame(() => {
      asked = false
      paint()
    })
  }
  const view = new View(data.duration, redraw)
  const painter = new Painter(canvas, data, layout, arrows, view, highlights)
  const overview = new Overview(byId('overview', HTMLCanvasElement), view, data, layout)

  const paint = (): void => {
    const before = performance.now()
    const ratio = devicePixelRatio
    painter.draw(height, ratio)
    overview.draw(colours, ratio)
    labels.style.transform = `translateY(${AXIS - view.scroll}px)`
    const hidden = arrows.hidden === 0 ? '' : ` · ${formatCount(arrows.hidden)} arrows: zoom in to see them`
    const [from, to] = [Math.max(0, view.begin), Math.min(data.duration, view.end)]
    status.textContent = `${[from, to].map((time) => formatTick(time, view.perPixel, to)).join(' to ')}${hidden}`
    window.timelineFrames.push(performance.now() - before)
    if (window.timelineFrames.length > FRAMES_KEPT) window.timelineFrames.shift()
  }

  const resize = (): void => {
    view.width = Math.max(1, area.clientWidth)
    height = Math.max(1, area.clientHeight)
    canvas.width = Math.round(view.width * devicePixelRatio)
    canvas.height = Math.round(height * devicePixelRatio)
    if (stretch(layout, height - AXIS - STATUS) || labels.childElementCount === 0) placeLabels()
    scrollTo(view.scroll)
  }
  const placeLabels = (): void => {
    labels.replaceChildren()
    for (const { text, y } of layout.headings) label(labels, text, 'heading', y, 28).title = text
    for (const band of layout.bands) {
      if (band.label !== '') label(labels, band.label, 'track', band.y, band.height).title = band.detail
    }
  }
  const scrollTo = (to: number): void => {
    view.scroll = Math.max(0, Math.min(to, layout.height + AXIS - height))
    redraw()
  }
  const scrollToBand = (y: number, tall: number): void => {
    if (y < view.scroll) scrollTo(y - 20)
    else if (y + tall > view.scroll + height - AXIS) scrollTo(y + tall - height + AXIS + 20)
  }

  const select = (row: number, move: boolean): void => {
    if (move) showTooltip(0, 0, NOTHING)
    highlights.selected = row
    showDetails(data, row, follow)
    if (row >= 0) {
      const waits = waitsFor(data, row, false)
      spoken.textContent = `${titleOf(data, row)}, ${placeOf(data, row)}, at ${formatPoint(timeOf(data, row))} ${waits}`
      if (move) reveal(row)
    }
    redraw()
  }
  /** Brings a row into view, and zooms no more than necessary. */
  const reveal = (row: number): void => {
    const from = timeOf(data, row)
    const to = Math.max(from, data.end[row] ?? from) || from
    const span = view.end - view.begin
    if (to - from > span) view.show(from - (to - from) * 0.2, to + (to - from) * 0.2, true)
    else if (to - from < span / 400 && to > from) view.show(from - (to - from) * 40, to + (to - from) * 40, true)
    else if (from < view.begin || to > view.end) view.show((from + to - span) / 2, (from + to + span) / 2, true)
    const band = bandOf(data, layout, row)
    if (band !== undefined) scrollToBand(band.y, band.height)
  }
  const follow = (row: number): void => select(row, true)

  const showGap = (row: number): void => {
    select(row, false)
    if (marked < 0) highlights.gaps = gaps.bars([row])
    highlights.gap = row
    const [begin, end] = [data.gapBegin[row] ?? 0, data.start[row] ?? 0]
    const margin = (end - begin) * 1.5
    view.show(begin - margin, end + margin, true)
    spoken.textContent = `${placeOf(data, row)} stood idle for ${formatTime(end - begin)}: ${gapReason(data, row)}`
    const band = layout.ofTrack.get(data.track[row] ?? -1)
    if (band !== undefined) scrollToBand(band.y, band.height)
  }
  /** Marks the gaps of a stall, or unmarks them if they are marked. */
  const mark = (place: number): void => {
    marked = place === marked ? -1 : place
    const rows = marked < 0 ? gaps.all : gaps.of(marked)
    highlights.gaps = marked < 0 ? new Map() : gaps.bars(rows)
    highlights.gap = -1
    showMarked(marked)
    listGaps(data, gaps, rows, showGap)
    const isInView = (row: number): boolean =>
      (data.start[row] ?? 0) > view.begin && (data.gapBegin[row] ?? 0) < view.end
    if (marked >= 0 && !rows.some(isInView)) view.fit()
    spoken.textContent = marked < 0 ? 'No gaps are marked' : `${formatCount(rows.length)} gaps are marked`
    redraw()
  }

  const measure = (range: Highlights['range']): void => {
    highlights.range = range
    measuring.ariaPressed = String(range !== undefined)
    showRange(data, layout, range)
    if (range !== undefined) spoken.textContent = `measured: ${formatTime(range.to - range.from)}`
    redraw()
  }
  /** Measures the selected operation, or else the middle of the view; ends measuring if something is measured. */
  const toggleMeasure = (): void => {
    const row = highlights.selected
    const [from, to] = [timeOf(data, row), data.end[row] ?? Number.NaN]
    const third = (view.end - view.begin) / 3
    if (highlights.range !== undefined) measure(undefined)
    else if (row >= 0 && to > from) measure({ from, to })
    else measure({ from: Math.max(0, view.begin + third), to: Math.min(data.duration, view.end - third) })
  }
  const moveEnd = (which: 'from' | 'to', by: number): void => {
    const { range } = highlights
    if (range === undefined) {
      toggleMeasure()
      return
    }
    const moved = { ...range, [which]: range[which] + by * KEY_MEASURE * (view.end - view.begin) }
    if (moved.to >= moved.from) measure(moved)
  }

  const search = (text: string): void => {
    const result = find(data, layout.bands, text)
    highlights.matches = result?.matches
    highlights.matchesBefore = result?.matchesBefore ?? new Map()
    found = result?.rows ?? new Int32Array()
    foundAt = -1
    byId('found', HTMLElement).textContent = result === undefined ? '' : `${formatCount(found.length)} found`
    redraw()
    goToFound(1)
  }
  const goToFound = (step: number): void => {
    if (found.length === 0) return
    foundAt = (foundAt + step + found.length) % found.length
    byId('found', HTMLElement).textContent = `${formatCount(foundAt + 1)} of ${formatCount(found.length)}`
    follow(found[foundAt] ?? -1)
  }

  const showTooltip = (x: number, y: number, { row, isHeld }: Picked): void => {
    tooltip.hidden = row < 0
    if (row < 0) return
    const took = (data.end[row] ?? Number.NaN) - (data.start[row] ?? Number.NaN)
    const call = (data.returned[row] ?? 0) - (data.called[row] ?? 0)
    const length = Number.isNaN(took) ? `call of ${formatTime(call)}` : formatTime(took)
    const where = `${placeOf(data, row)} · at ${formatPoint(timeOf(data, row))}`
    tooltip.replaceChildren(element('strong', {}, titleOf(data, row)), ` ${length}`, element('br'), where)
    const waits = waitsFor(data, row, isHeld)
    if (waits !== '') tooltip.append(element('br'), waits)
    tooltip.style.left = `${Math.max(4, Math.min(x + 14, area.clientWidth - tooltip.offsetWidth - 8))}px`
    tooltip.style.top = `${y + 18}px`
  }

  // The actions of the keyboard.
  const zoomToSelection = (): void => {
    const row = highlights.selected
    if (row < 0) return
    const from = timeOf(data, row)
    const to = Math.max(from, data.end[row] ?? from) || from
    const margin = Math.max((to - from) * 0.5, 500)
    view.show(from - margin, to + margin, true)
  }
  const step = (by: number): void => {
    const band = bandOf(data, layout, highlights.selected)
    if (band !== undefined) follow(neighbour(data, band, highlights.selected, by))
    else {
      const first = layout.bands.find((one) => one.kind === 'stream' && one.rows.length > 0)
      follow(first?.rows[0] ?? -1)
    }
  }
  const goBeside = (by: number): void => {
    if (highlights.selected < 0) step(1)
    else follow(beside(data, layout, highlights.selected, by))
  }
  const middle = (): number => {
    const row = highlights.selected
    const at = row < 0 ? Number.NaN : timeOf(data, row)
    return at >= view.begin && at <= view.end ? at : (view.begin + view.end) / 2
  }
  const span = (): number => view.end - view.begin
  const help = byId('help', HTMLDialogElement)
  const critical = byId('critical', HTMLInputElement)
  const followCause = (): void => {
    const by = data.blockedBy[highlights.selected] ?? -1
    if (by >= 0) follow(by)
  }
  const clear = (): void => {
    select(-1, false)
    highlights.gaps = new Map()
    if (marked >= 0) mark(marked)
    measure(undefined)
  }
  const keys: readonly (readonly [keys: string, action: () => void])[] = [
    ['ArrowLeft a', () => view.pan(-span() * KEY_PAN, true)],
    ['ArrowRight d', () => view.pan(span() * KEY_PAN, true)],
    ['w + =', () => view.zoom(KEY_ZOOM, middle(), true)],
    ['s -', () => view.zoom(1 / KEY_ZOOM, middle(), true)],
    ['ArrowUp', () => goBeside(-1)],
    ['ArrowDown', () => goBeside(1)],
    ['PageUp', () => scrollTo(view.scroll - height / 2)],
    ['PageDown', () => scrollTo(view.scroll + height / 2)],
    ['Home', () => view.show(0, span(), true)],
    ['End', () => view.show(data.duration - span(), data.duration, true)],
    ['f 0', () => view.fit()],
    ['z', zoomToSelection],
    ['[', () => step(-1)],
    [']', () => step(1)],
    ['Enter', followCause],
    ['m', toggleMeasure],
    [',', () => moveEnd('from', -1)],
    ['.', () => moveEnd('from', 1)],
    ['Shift+ArrowLeft', () => moveEnd('to', -1)],
    ['Shift+ArrowRight', () => moveEnd('to', 1)],
    ['n', () => goToFound(1)],
    ['p', () => goToFound(-1)],
    ['c', () => critical.click()],
    ['t', () => byId('theme', HTMLButtonElement).click()],
    ['/', () => searchBox.focus()],
    ['?', () => help.showModal()],
    ['Escape', clear],
  ]
  listenToKeys(
    new Map(keys.flatMap(([names, action]) => names.split(' ').map((name) => [name, action] as const))),
    () => help.open,
    () => showTooltip(0, 0, NOTHING),
  )
  listenToPointer(canvas, view, layout, {
    select: (row) => select(row, false),
    hover(x, y, picked) {
      if (picked.row !== highlights.hovered) redraw()
      highlights.hovered = picked.row
      showTooltip(x, y, picked)
    },
    scrollBy: (pixels) => scrollTo(view.scroll + pixels),
    zoomToSelection,
    range: () => highlights.range,
    measure: (from, to) => measure({ from, to }),
  })
  searchBox.addEventListener('input', () => search(searchBox.value))
  searchBox.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') goToFound(event.shiftKey ? -1 : 1)
    if (event.key === 'Escape') {
      searchBox.value = ''
      search('')
      canvas.focus()
    }
  })
  byId('fit', HTMLButtonElement).addEventListener('click', () => view.fit())
  byId('help-button', HTMLButtonElement).addEventListener('click', () => help.showModal())
  measuring.addEventListener('click', toggleMeasure)
  critical.addEventListener('change', () => {
    highlights.showCritical = critical.checked
    redraw()
  })

  // The role lets screen readers pass the keys to the page.
  canvas.setAttribute('role', 'application')

  // The parts that do not change.
  area.style.setProperty('--tracks', `${layout.height + AXIS}px`)
  const operations = data.kind.reduce(
    (count, kind, row) => count + Number(!isHostOnly(kind) && data.parent[row] === -1),
    0,
  )
  const nodes = data.parent.reduce((count, parent) => count + Number(parent >= 0), 0)
  const about = [
    `${formatCount(operations)} operations`,
    ...(nodes > 0 ? [`${formatCount(nodes)} nodes of graphs`] : []),
    formatTime(data.duration),
    data.clock === 'virtual' ? 'virtual time, exact' : `times to ${formatTime(data.uncertainty)} or so`,
    ...(data.dropped > 0 ? [`${formatCount(data.dropped)} more not recorded`] : []),
  ]
  byId('about', HTMLElement).textContent = about.join(' · ')
  showOverlaps(data)
  listStreams(data, (track) => {
    const band = layout.ofTrack.get(track)
    if (band !== undefined) follow(band.rows[0] ?? -1)
  })
  byId('verdict', HTMLElement).replaceChildren(...withCode(data.verdict))
  const showMarked = listStalls(data, mark)
  listGaps(data, gaps, gaps.all, showGap)
  listPath(data, follow)
  listNames(data, (text) => {
    searchBox.value = text
    search(text)
  })
  showDetails(data, -1, follow)
  themeButton(byId('theme', HTMLButtonElement), (changed) => {
    colours = changed
    painter.restyle(changed)
    redraw()
  })
  new ResizeObserver(resize).observe(area)
  resize()
}

function label(into: HTMLElement, text: string, className: string, y: number, height: number): HTMLElement {
  const made = element('div', { className }, text)
  made.style.top = `${y}px`
  made.style.lineHeight = `${height}px`
  into.append(made)
  return made
}

/** Handles keys wherever the focus is, except in the search box and in a dialog. Letters are in lower case. */
function listenToKeys(keys: ReadonlyMap<string, () => void>, isModal: () => boolean, pressed: () => void): void {
  document.addEventListener('keydown', (event) => {
    const { target, key } = event
    if (event.ctrlKey || event.metaKey || event.altKey || isModal()) return
    if (target instanceof HTMLInputElement && target.type === 'search') return
    // Enter on a button presses that button.
    if (key === 'Enter' && target instanceof HTMLElement && target.matches('button, summary')) return
    const isArrow = key === 'ArrowLeft' || key === 'ArrowRight'
    const name = key.length === 1 ? key.toLowerCase() : key
    const action = keys.get(event.shiftKey && isArrow ? `Shift+${name}` : name)
    if (action === undefined) return
    event.preventDefault()
    pressed()
    action()
  })
}

/** Reads the recording in the page's file: base64 of zlib's output. */
async function read(): Promise<void> {
  const text = byId('data', HTMLScriptElement).textContent ?? ''
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))
  show(dataOf(decodePage(new Uint8Array(await new Response(stream).arrayBuffer()))))
}

read().catch((error: unknown) => {
  byId('about', HTMLElement).textContent = `This browser cannot show the recording: ${error}`
})
