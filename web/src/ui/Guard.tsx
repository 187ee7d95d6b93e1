// Around what is made of data from elsewhere: should showing it fail after all, the rest of the page stays.
import { Component, type ComponentChildren } from 'preact';

interface Props {
  children: ComponentChildren;
}

export class Guard extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static override getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override render({ children }: Props) {
    return this.state.failed ? <p class="hint" role="alert">This output could not be shown.</p> : children;
  }
}
