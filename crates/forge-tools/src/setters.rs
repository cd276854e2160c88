//! The methods of builders that set one field each.

/// Defines methods of a builder: `name(value: Type) = new;` sets the field `name`, with
/// `=> field` behind the arguments another one. For the crates of this workspace.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$meta:meta])* $name:ident($($value:ident: $type:ty),+) $(=> $($field:ident).+)? = $new:expr;)+) => {$(
        $(#[$meta])*
        #[must_use]
        pub fn $name(mut self, $($value: $type),+) -> Self {
            $crate::setters!(@field self $name $($($field).+)?) = $new;
            self
        }
    )+};
    (@field $self:ident $name:ident) => { $self.$name };
    (@field $self:ident $name:ident $($field:ident).+) => { $self.$($field).+ };
}
