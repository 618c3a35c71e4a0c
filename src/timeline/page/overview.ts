/** The whole recording in a strip: how busy it is, and which part is in view. Dragging in it moves the view. */
import type { Data } from './data.js'
import type { Layout } from './layout.js'
import { countUpTo } from './layout.js'
import type { Colours } from './theme.js'
import type { View } from './view.js'

export class Overview {
  readonly #canvas: HTMLCanvasElement
  readonly #view: View
  readonly #layout: Layout
  readonly #data: Data
  #image: { readonly width: number; readonly busy: Float64Array } | undefined

  constructor(canvas: HTMLCanvasElement, view: View, data: Data, layout: Layout) {
    this.#canvas = canvas
    this.#view = view
    this.#data = data
    this.#layout = layout
    const move = (event: PointerEvent): void => {
      const box = canvas.getBoundingClientRect()
      const middle = ((event.clientX - box.left) / box.width) * view.duration
      const half = (view.end - view.begin) / 2
      view.show(middle - half, middle + half, false)
    }
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId)
      move(event)
    })
    canvas.addEventListener('pointermove', (event) => {
      if (event.buttons === 1) move(event)
    })
  }

  draw(colours: Colours, ratio: number): void {
    const { clientWidth: width, clientHeight: height } = this.#canvas
    if (this.#canvas.width !== Math.round(width * ratio) || this.#canvas.height !== Math.round(height * ratio)) {
      this.#canvas.width = Math.round(width * ratio)
      this.#canvas.height = Math.round(height * ratio)
    }
    const context = this.#canvas.getContext('2d')
    if (context === null) return
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    context.clearRect(0, 0, width, height)
    const busy = this.#busyness(Math.max(1, Math.floor(width)))
    context.fillStyle = colours.kernels[0] ?? colours.faint
    context.globalAlpha = 0.75
    for (let x = 0; x < busy.length; x += 1) {
      const tall = (busy[x] ?? 0) * (height - 6)
      context.fillRect(x, height - 2 - tall, 1, tall)
    }
    const { begin, end, duration } = this.#view
    const left = Math.max(0, (begin / duration) * width)
    const right = Math.min(width, (end / duration) * width)
    context.globalAlpha = 0.6
    context.fillStyle = colours.background
    context.fillRect(0, 0, left, height)
    context.fillRect(right, 0, width - right, height)
    context.globalAlpha = 1
    context.strokeStyle = colours.accent
    context.lineWidth = 1.5
    context.strokeRect(left + 0.75, 0.75, Math.max(2, right - left - 1.5), height - 1.5)
  }

  /** For each pixel the share of the streams that work then. */
  #busyness(width: number): Float64Array {
    if (this.#image?.width === width) return this.#image.busy
    const busy = new Float64Array(width)
    const streams = this.#layout.tracks.filter((track) => track.kind === 'stream' && track.rows.length > 0)
    for (const track of streams) {
      let before = 0
      for (let x = 0; x < width; x += 1) {
        const time = ((x + 1) / width) * this.#data.duration
        const at = countUpTo(track.begin, time)
        const over = Math.max(0, (track.end[at - 1] ?? 0) - time)
        const passed = Math.max(0, (track.busyBefore[at] ?? 0) - over)
        busy[x] = (busy[x] ?? 0) + Math.max(0, passed - before) / (this.#data.duration / width) / streams.length
        before = Math.max(before, passed)
      }
    }
    this.#image = { width, busy }
    return busy
  }
}
