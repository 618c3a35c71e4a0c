/** The interval of time in view, and how it moves. */
const SHORTEST = 20
const MOVE_MS = 180

export class View {
  begin = 0
  end: number
  width = 1
  scroll = 0
  readonly duration: number
  #moving = 0

  constructor(
    duration: number,
    private readonly changed: () => void,
  ) {
    this.duration = Math.max(duration, SHORTEST)
    this.end = this.duration
    this.fit(false)
  }

  xOf(time: number): number {
    return ((time - this.begin) / (this.end - this.begin)) * this.width
  }

  timeAt(x: number): number {
    return this.begin + (x / this.width) * (this.end - this.begin)
  }

  /** The nanoseconds per pixel. */
  get perPixel(): number {
    return (this.end - this.begin) / this.width
  }

  fit(animated = true): void {
    const margin = this.duration * 0.01
    this.show(-margin, this.duration + margin, animated)
  }

  pan(time: number, animated = false): void {
    this.show(this.begin + time, this.end + time, animated)
  }

  /** Zooms by a factor around a time that stays in its place. */
  zoom(factor: number, around: number, animated = false): void {
    this.show(around - (around - this.begin) / factor, around + (this.end - around) / factor, animated)
  }

  show(begin: number, end: number, animated: boolean): void {
    const widest = this.duration * 1.04
    const span = Math.min(Math.max(end - begin, SHORTEST), widest)
    // A margin shows that the recording ends there.
    const margin = Math.max(span * 0.02, (span - this.duration) / 2)
    let from = begin + (end - begin - span) / 2
    from = Math.min(Math.max(from, -margin), this.duration + margin - span)
    this.#moving += 1
    if (animated && !matchMedia('(prefers-reduced-motion: reduce)').matches) this.#move(from, from + span)
    else {
      this.begin = from
      this.end = from + span
      this.changed()
    }
  }

  #move(begin: number, end: number): void {
    const move = this.#moving
    const from = { begin: this.begin, end: this.end, at: performance.now() }
    const step = (): void => {
      if (move !== this.#moving) return
      const part = Math.min(1, (performance.now() - from.at) / MOVE_MS)
      const eased = 1 - (1 - part) ** 3
      this.begin = from.begin + (begin - from.begin) * eased
      this.end = from.end + (end - from.end) * eased
      this.changed()
      if (part < 1) requestAnimationFrame(step)
    }
    step()
  }
}

/** Steps of 1, 2 or 5 that are at least so far apart. */
export function tickStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least))
  const mantissa = least / power
  return power * (mantissa <= 1 ? 1 : mantissa <= 2 ? 2 : mantissa <= 5 ? 5 : 10)
}
