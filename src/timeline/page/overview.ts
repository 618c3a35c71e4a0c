/** The whole recording in a strip: how busy it is, and which part is in view. Dragging in it moves the view. */
import { busyUntil } from '../bars.js'
import type { Data } from './data.js'
import type { PageLayout } from './layout.js'
import type { Colours } from './theme.js'
import type { View } from './view.js'

export class Overview {
  #image: { readonly width: number; readonly busy: Float64Array } | undefined

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly view: View,
    private readonly data: Data,
    private readonly layout: PageLayout,
  ) {
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
    const { clientWidth: width, clientHeight: height } = this.canvas
    const [pixels, lines] = [Math.round(width * ratio), Math.round(height * ratio)]
    if (this.canvas.width !== pixels || this.canvas.height !== lines)
      Object.assign(this.canvas, { width: pixels, height: lines })
    const context = this.canvas.getContext('2d')
    if (context === null) return
    context.setTransform(ratio, 0, 0, ratio, 0, 0)
    context.clearRect(0, 0, width, height)
    const busy = this.#busyness(Math.max(1, Math.floor(width)))
    context.fillStyle = colours('kernel0')
    context.globalAlpha = 0.75
    for (let x = 0; x < busy.length; x += 1) {
      const tall = (busy[x] ?? 0) * (height - 6)
      context.fillRect(x, height - 2 - tall, 1, tall)
    }
    const { begin, end, duration } = this.view
    const left = Math.max(0, (begin / duration) * width)
    const right = Math.min(width, (end / duration) * width)
    context.globalAlpha = 0.6
    context.fillStyle = colours('background')
    context.fillRect(0, 0, left, height)
    context.fillRect(right, 0, width - right, height)
    context.globalAlpha = 1
    context.strokeStyle = colours('accent')
    context.lineWidth = 1.5
    context.strokeRect(left + 0.75, 0.75, Math.max(2, right - left - 1.5), height - 1.5)
  }

  /** For each pixel the share of the streams that work then. */
  #busyness(width: number): Float64Array {
    if (this.#image?.width === width) return this.#image.busy
    const busy = new Float64Array(width)
    const streams = this.layout.tracks.filter((track) => track.kind === 'stream' && track.rows.length > 0)
    for (const track of streams) {
      let before = 0
      for (let x = 0; x < width; x += 1) {
        const passed = busyUntil(track, ((x + 1) / width) * this.data.duration)
        busy[x] = (busy[x] ?? 0) + (passed - before) / (this.data.duration / width) / streams.length
        before = passed
      }
    }
    this.#image = { width, busy }
    return busy
  }
}
