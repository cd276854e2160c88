//! The methods that set one option each.

/// Defines methods of a builder: `name(value: Type) = new;` sets the field `name`, with
/// `=> field` behind the arguments another one.
macro_rules! setters {
    ($($(#[$meta:meta])* $name:ident($($value:ident: $type:ty),+) $(=> $field:ident)? = $new:expr;)+) => {$(
        $(#[$meta])*
        #[must_use]
        pub fn $name(mut self, $($value: $type),+) -> Self {
            setters!(@field self $name $($field)?) = $new;
            self
        }
    )+};
    (@field $self:ident $name:ident) => { $self.$name };
    (@field $self:ident $name:ident $field:ident) => { $self.$field };
}
